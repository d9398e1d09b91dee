import { fork } from 'node:child_process'
import net from 'node:net'
import path from 'node:path'
import type { KeeperMessage, ServiceSpec } from './keeper.ts'

export type Service = {
  pid: number
  /** Resolves when it has ended, for whatever reason. */
  ended: Promise<void>
  stop(): Promise<void>
}

/** Ended before it was ready; `output` says why. */
export class ServiceFailed extends Error {
  readonly output: string

  constructor(command: string, output: string) {
    super(`${path.basename(command)} ended before it was ready: ${output.trim().split('\n').at(-1) ?? ''}`)
    this.name = 'ServiceFailed'
    this.output = output
  }
}

const READY_MS = 60_000

/** Starts a service that lives as long as this process, or until it is stopped. See `keeper.ts`. */
export async function startService(spec: ServiceSpec): Promise<Service> {
  const extension = path.extname(import.meta.filename)
  const keeper = fork(path.join(import.meta.dirname, `keeper${extension}`), [JSON.stringify(spec)], {
    detached: true,
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    // Nothing that this process was started with (a debugger's port, a loader of the tests) is meant for the keeper.
    execArgv: [],
  })
  const ended = new Promise<void>((resolve) => keeper.once('exit', () => resolve()))
  const pid = await new Promise<number>((resolve, reject) => {
    const timer = setTimeout(() => {
      keeper.disconnect()
      reject(new ServiceFailed(spec.command, `not ready within ${READY_MS} ms`))
    }, READY_MS)
    keeper.on('message', (message: KeeperMessage) => {
      clearTimeout(timer)
      if (message.kind === 'ready') resolve(message.pid)
      else reject(new ServiceFailed(spec.command, message.output))
    })
    keeper.once('exit', () => {
      clearTimeout(timer)
      reject(new ServiceFailed(spec.command, 'its keeper ended'))
    })
    // One that could not be started never exits; and an error that nobody listens to would end this process.
    keeper.on('error', ({ message }) => {
      clearTimeout(timer)
      reject(new ServiceFailed(spec.command, `its keeper could not be started: ${message}`))
    })
  })
  // The channel must not keep this process alive; its closing is what stops the service.
  keeper.unref()
  keeper.channel?.unref()
  return {
    pid,
    ended,
    async stop() {
      keeper.ref()
      if (keeper.connected) keeper.disconnect()
      await ended
    },
  }
}

/** A port that was free a moment ago. Whoever starts a server on it must be ready to try another. */
export async function findFreePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as net.AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
