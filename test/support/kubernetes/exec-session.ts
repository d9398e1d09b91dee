import type { Readable } from 'node:stream'
import { ApiError, badRequest } from './api-error.ts'
import { containerNameOf, unreachableKubelet } from './log-requests.ts'
import type { Json, KubeObject } from './objects.ts'
import type { PodWorker } from './pod-worker.ts'
import type { Container, ExecProcess } from './runtime/runtime.ts'
import type { Socket } from './websocket.ts'

const [STDIN, STDOUT, STDERR, STATUS, CLOSE] = [0, 1, 2, 3, 255]

export type ExecAsked = {
  container: Container
  command: string[]
  stdin: boolean
  stdout: boolean
  stderr: boolean
  tty: boolean
}

/** What is asked for, refused where it cannot be. */
export function execAsked(pod: KubeObject, worker: PodWorker | undefined, query: URLSearchParams): ExecAsked {
  const is = (name: string) => ['true', '1'].includes(query.get(name) ?? '')
  const command = query.getAll('command')
  if (command.length === 0) throw badRequest('you must specify at least 1 command for the container')
  const asked = { command, stdin: is('stdin'), stdout: is('stdout'), stderr: is('stderr'), tty: is('tty') }
  if (!asked.stdin && !asked.stdout && !asked.stderr)
    throw badRequest('you must specify at least 1 of stdin, stdout, stderr')
  const name = containerNameOf(pod, query.get('container') ?? '')
  if (!pod.spec?.nodeName) throw badRequest(`pod ${pod.metadata.name} does not have a host assigned`)
  if (worker?.isLost) throw unreachableKubelet(pod, `exec/${pod.metadata.namespace}/${pod.metadata.name}/${name}`)
  const container = worker?.slot(name)?.container
  if (!container || container.end)
    throw new ApiError(500, 'InternalError', `unable to upgrade connection: container not found ("${name}")`)
  return { ...asked, container }
}

/**
 * A command in a container, over a socket. It is not ended by the socket's end: then its input is closed, and what it writes has
 * nowhere to go, so it may stand still when the pipe is full. Only its container ends it.
 */
export async function execSession(asked: ExecAsked, socket: Socket): Promise<void> {
  socket.on('error', () => {})
  const { container, command, stdin, tty } = asked
  const closed = new Promise<void>((resolve) => socket.on('close', resolve))
  const inputs: Buffer[] = []
  let process: ExecProcess | undefined
  socket.on('message', (data) => (process ? feed(process, socket, data) : inputs.push(data)))
  try {
    process = await container.exec({ command, stdin, tty })
  } catch (error) {
    await tell(socket, STATUS, JSON.stringify(startFailure(error as Error)))
    return socket.close(1000)
  }
  for (const data of inputs) feed(process, socket, data)
  void closed.then(() => process?.stdin?.end())
  const [out, error] = [
    pump(process.stdout, asked.stdout, socket, STDOUT),
    pump(process.stderr, asked.stderr, socket, STDERR),
  ]
  const { exitCode } = await Promise.race([process.ended, closed.then(() => ({ exitCode: -1 }))])
  if (exitCode === -1) return
  await Promise.all([out, error])
  await tell(socket, STATUS, JSON.stringify(statusOf(exitCode, command)))
  socket.close(1000)
}

function feed(process: ExecProcess, socket: Socket, data: Buffer): void {
  const [channel] = data
  if (channel === CLOSE && data[1] === STDIN) process.stdin?.end()
  if (channel !== STDIN || !process.stdin?.writable) return
  if (process.stdin.write(data.subarray(1))) return
  // As fast as the process reads, and no faster.
  socket.pause()
  process.stdin.once('drain', () => socket.resume())
  process.stdin.once('close', () => socket.resume())
}

/** A piece at a time: what the socket has not taken is not read from the process. */
async function pump(output: Readable, isWanted: boolean, socket: Socket, channel: number): Promise<void> {
  if (!isWanted) {
    output.resume()
    return
  }
  const iterator = output.iterator({ destroyOnReturn: false })
  for await (const piece of iterator) if (!(await tell(socket, channel, piece as Buffer))) return
}

async function tell(socket: Socket, channel: number, data: Buffer | string): Promise<boolean> {
  const frame = Buffer.concat([Buffer.from([channel]), Buffer.from(data)])
  return new Promise((resolve) => socket.send(frame, (error) => resolve(error === undefined || error === null)))
}

function statusOf(exitCode: number, command: string[]): Json {
  if (exitCode === 0) return { metadata: {}, status: 'Success' }
  return {
    metadata: {},
    status: 'Failure',
    message: `command terminated with non-zero exit code: error executing command [${command.join(' ')}], exit code ${exitCode}`,
    reason: 'NonZeroExitCode',
    details: { causes: [{ reason: 'ExitCode', message: String(exitCode) }] },
  }
}

function startFailure({ message }: Error): Json {
  return {
    metadata: {},
    status: 'Failure',
    message: `Internal error occurred: error executing command in container: failed to exec in container: failed to start exec: OCI runtime exec failed: exec failed: unable to start container process: ${message}: unknown`,
    reason: 'InternalError',
    details: { causes: [{ message }] },
    code: 500,
  }
}
