import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'

/** A box: a folder, with whatever runs in it. `born` is another one for every box, also of the same name. */
export type Box = { name: string; labels: Record<string, string>; born: string }

/**
 * A provider of sandboxes that is as small as one can be, to be talked to by `backend.ts`.
 *
 *     PUT    /boxes/<name>          makes it, with the labels in the body; one that is there is answered as it is
 *     GET    /boxes/<name>
 *     GET    /boxes?after=<name>    a page of all of them, in the order of their names
 *     DELETE /boxes/<name>?born=…   ends it, if it is the one that is meant
 *     POST   /boxes/<name>/scripts?born=…   runs the script in the body; answers in lines of JSON: { out } as it comes, { exit } at its end
 *
 * What is not there is answered with 404 and { error: "no_such_box" }, another one than was meant with 409.
 */
export async function startBoxes({ pageSize = 50 } = {}): Promise<{ url: string; stop(): Promise<void> }> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'boxes-'))
  const boxes = new Map<string, Box>()

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://boxes')
    const [, boxesPath, name = '', action] = url.pathname.split('/').map(decodeURIComponent)
    if (boxesPath !== 'boxes') return send(response, 404, { error: 'no_such_page' })
    if (name === '') return send(response, 200, page(url.searchParams.get('after') ?? ''))
    let box = boxes.get(name)
    if (!box && request.method === 'PUT') {
      box = { name, labels: JSON.parse(await read(request)), born: randomUUID() }
      boxes.set(name, box)
      await mkdir(path.join(folder, name))
    }
    if (!box) return send(response, 404, { error: 'no_such_box', name })
    const meant = url.searchParams.get('born') ?? box.born
    if (meant !== box.born) return send(response, 409, { error: 'another_box', born: box.born })
    if (request.method === 'DELETE') {
      boxes.delete(name)
      await killAll(box)
      await rm(path.join(folder, name), { recursive: true, force: true })
    }
    if (action === 'scripts') return run(box, await read(request), response)
    send(response, 200, box)
  }

  function page(after: string): Box[] {
    const names = [...boxes.keys()].filter((name) => name > after).sort()
    return names.slice(0, pageSize).map((name) => boxes.get(name) as Box)
  }

  async function run({ name, born }: Box, script: string, response: ServerResponse): Promise<void> {
    const at = path.join(folder, name)
    const env = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: at, BOX: born }
    const child = spawn('sh', ['-c', script], { cwd: at, env, stdio: ['ignore', 'pipe', 'ignore'], detached: true })
    await once(child, 'spawn') // or it fails: its folder may be gone
    response.writeHead(200, { 'content-type': 'application/x-ndjson' }).flushHeaders()
    for await (const bytes of child.stdout) {
      const line = `${JSON.stringify({ out: (bytes as Buffer).toString('base64') })}\n`
      // Who does not read is not read ahead of. Who hangs up is not written to, and the script goes on.
      if (!response.write(line) && !response.destroyed)
        await Promise.race([once(response, 'drain'), once(response, 'close')])
    }
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    response.end(`${JSON.stringify({ exit: child.exitCode ?? 128 })}\n`)
  }

  const server = createServer((request, response) => {
    serve(request, response).catch((error: unknown) => send(response, 500, { error: String(error) }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      for (const box of boxes.values()) await killAll(box)
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** All that was ever started in a box says so in its environment. */
export async function processesOf({ born }: Box): Promise<{ pid: number; environ: string }[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const all = await Promise.all(
    pids.map(async (pid) => ({
      pid: Number(pid),
      environ: await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => ''),
    })),
  )
  return all.filter(({ environ }) => environ.split('\0').includes(`BOX=${born}`))
}

/** Until nobody is left: one may start another while it is being killed. */
async function killAll(box: Box): Promise<void> {
  for (;;) {
    const processes = await processesOf(box)
    if (processes.length === 0) return
    for (const { pid } of processes) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It has ended by itself.
      }
    }
  }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

async function read(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const piece of request.setEncoding('utf8')) text += piece
  return text
}
