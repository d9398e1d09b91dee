import { BackendError, type Call } from 'sandman'
import type { Shell } from 'sandman/shell'
import type { Box } from './service.ts'

/** How boxes are talked to: every failure is one of the contract's, and *not found* is said only in the provider's own words. */
export function boxesClient(url: string) {
  async function ask(method: string, path: string, { signal }: Call, body?: string): Promise<Response> {
    signal.throwIfAborted()
    try {
      const response = await fetch(`${url}${path}`, { method, signal, ...(body !== undefined && { body }) })
      if (response.ok && /json/.test(response.headers.get('content-type') ?? '')) return response
      throw failureOf(response.status, await response.text(), `${method} ${path}`)
    } catch (error) {
      throw asPromised(error, signal)
    }
  }

  async function request<T>(method: string, path: string, call: Call, body?: string): Promise<T> {
    const response = await ask(method, path, call, body)
    return response.json().catch((error: unknown) => {
      throw asPromised(error, call.signal)
    }) as Promise<T>
  }

  const require = (name: string, call: Call) => request<Box>('GET', `/boxes/${encodeURIComponent(name)}`, call)

  async function find(name: string, call: Call): Promise<Box | undefined> {
    return require(name, call).catch((error: unknown) => {
      if (error instanceof BackendError && error.type === 'sandbox_expired') return undefined
      throw error
    })
  }

  async function listAll(call: Call): Promise<Box[]> {
    const all: Box[] = []
    for (;;) {
      const page = await request<Box[]>('GET', `/boxes?after=${encodeURIComponent(all.at(-1)?.name ?? '')}`, call)
      all.push(...page)
      if (page.length === 0) return all
    }
  }

  /** The one ability that agents are made of. */
  function shellOf({ name, born }: Box): Shell {
    async function* stream(script: string, call: Call): AsyncGenerator<Uint8Array, { exitCode: number }> {
      const path = `/boxes/${encodeURIComponent(name)}/scripts?born=${born}`
      const { body } = await ask('POST', path, call, script)
      try {
        for await (const line of linesOf(body as ReadableStream<Uint8Array>)) {
          const { out, exit } = JSON.parse(line) as { out?: string; exit?: number }
          if (out !== undefined) yield Buffer.from(out, 'base64')
          if (exit !== undefined) return { exitCode: exit }
        }
      } catch (error) {
        throw asPromised(error, call.signal)
      }
      throw new BackendError('sandbox_unreachable', `What ran in ${name} was cut off`)
    }
    async function run(script: string, call: Call): Promise<{ exitCode: number; output: string }> {
      const output: Uint8Array[] = []
      const reading = stream(script, call)
      for (;;) {
        const next = await reading.next()
        if (next.done) return { exitCode: next.value.exitCode, output: Buffer.concat(output).toString() }
        output.push(next.value)
      }
    }
    return { run, stream }
  }

  return { find, require, request, shellOf, listAll }
}

async function* linesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let rest = ''
  for await (const bytes of body) {
    const lines = (rest + Buffer.from(bytes).toString('latin1')).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
}

/** A gateway's 404 says nothing about a box. */
function failureOf(status: number, text: string, asked: string): BackendError {
  const said = `${asked} was answered with ${status}: ${text.slice(0, 200)}`
  if (status === 404 && text.includes('"no_such_box"')) return new BackendError('sandbox_expired', said)
  if (status === 409 && text.includes('"another_box"')) return new BackendError('overtaken', said)
  if (status === 401 || status === 403) return new BackendError('provider_unauthorized', said)
  if (status === 429) return new BackendError('rate_limited', said)
  return new BackendError('sandbox_unreachable', said)
}

/** Who gave up is told so; everything else that a connection can do is that nobody was reached. */
function asPromised(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason
  if (error instanceof BackendError) return error
  return new BackendError('sandbox_unreachable', `The boxes were not reached: ${String(error)}`, { cause: error })
}
