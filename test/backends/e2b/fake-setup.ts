import { readFileSync } from 'node:fs'
import { Sandbox, type SandboxOpts } from 'e2b'
import { expect, onTestFinished } from 'vitest'
import { FakeE2b, type FakeE2bOptions } from '../../support/e2b/server.ts'

/** A server of its own, and a short way to make sandboxes there. */
export async function setup(options?: FakeE2bOptions) {
  const e2b = await FakeE2b.start(options)
  onTestFinished(() => e2b.stop())
  const at = { ...e2b.connection, retries: 0 }
  const create = (more: SandboxOpts = {}) => Sandbox.create('base', { ...at, ...more })
  const info = (id: string) => Sandbox.getInfo(id, at)
  const listAll = () => Sandbox.list(at).nextItems()
  return { e2b, at, create, info, listAll }
}

/** In the background, for as long as the sandbox lives. Ready means that it has written something. */
export async function startCounting(sandbox: Sandbox) {
  const ready = Promise.withResolvers<void>()
  const script = 'i=0; while :; do i=$((i+1)); echo $i; echo $i > count; sleep 0.01; done'
  const handle = await sandbox.commands.run(script, { background: true, timeoutMs: 0, onStdout: () => ready.resolve() })
  handle.wait().catch(() => {}) // it is cut off by every pause
  await ready.promise
  return handle
}

/** T is stopped. Undefined when there is no such process, or it only waits to be noticed. */
export function stateOf(pid: number): string | undefined {
  try {
    const state = readFileSync(`/proc/${pid}/status`, 'utf8').match(/^State:\s+(\S)/m)?.[1]
    return state === 'Z' ? undefined : state
  } catch {
    return undefined
  }
}

/** What a call fails with, by the class that the SDK makes of it. */
export async function failure(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    (result) => expect.unreachable(`it succeeded: ${JSON.stringify(result)}`),
    (error: Error) => error,
  )
  return `${error.constructor.name}: ${error.message}`
}
