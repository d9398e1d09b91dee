import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { inject } from 'vitest'
import { findEngine, type TestEngine } from './engine.ts'

/** One engine for a whole run, in the process that outlives every test file; none when nobody asks for it. */
export async function offerEngine(): Promise<{ url: string; stop(): Promise<void> }> {
  let finding: Promise<TestEngine | { missing: string }> | undefined
  const server = http.createServer(async (_request, response) => {
    finding ??= findEngine()
    const found = await finding.catch((error: unknown) => ({ failed: String(error) }))
    response.end(JSON.stringify(found))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.closeAllConnections()
      server.close()
      const engine = await finding?.catch(() => undefined)
      if (engine && 'stop' in engine) await engine.stop()
    },
  }
}

/**
 * The socket of this run's engine. Undefined where there can be none: that is said plainly, because then the Docker suite did not
 * run.
 */
export async function engineSocket(): Promise<string | undefined> {
  const answer = await fetch(inject('engineUrl'))
  const found = (await answer.json()) as { socketPath?: string; missing?: string; failed?: string }
  if (found.failed !== undefined) throw new Error(found.failed)
  if (found.missing !== undefined) process.stderr.write(`The Docker suite did not run: ${found.missing}\n`)
  return found.socketPath
}
