import type { Cloud } from './cloud.ts'
import type { Asked, ProcessConfig } from './envd-process.ts'
import type { StreamFault } from './faults.ts'
import { readFiles, writeFiles } from './files.ts'
import { forward } from './preview.ts'
import { followProcess, tellEnd } from './process-stream.ts'
import { type Live, tokenOf } from './records.ts'
import { ApiError, type Reply } from './replies.ts'
import type { DataRoute } from './routes.ts'
import { RpcError } from './rpc.ts'
import type { Selector, Vm } from './vm.ts'

type DataCall = {
  route: DataRoute
  name: string
  port: number
  /** Path and query, as what listens inside sees them. */
  rest: string
  method: string
  headers: NodeJS.Dict<string | string[]>
  raw: Buffer
  message: unknown
  fault?: StreamFault | undefined
}

type StartMessage = { process: ProcessConfig; tag?: string; stdin?: boolean; pty?: unknown }
type SelectMessage = { process: Selector }

const SIGNALS: Record<string, 'SIGKILL' | 'SIGTERM'> = { SIGNAL_SIGKILL: 'SIGKILL', SIGNAL_SIGTERM: 'SIGTERM' }
const KEEPALIVE_S = 90

/** One call to a sandbox itself, by way of the proxy in front of all of them. */
export async function data(cloud: Cloud, call: DataCall): Promise<Reply> {
  const { vm } = await reach(cloud, call.name)
  const { route, headers } = call
  if (route === 'preview') return forward(call)
  if (route === 'health') return { status: 204 }
  if (headers['x-access-token'] !== tokenOf(call.name))
    throw new ApiError(401, 'unauthorized access, please provide a valid access token')
  if (route === 'readFile') return readFiles(vm, call)
  if (route === 'writeFile') return writeFiles(vm, call)
  return processCall(vm, call)
}

function processCall(vm: Vm, { route, headers, message, fault }: DataCall): Reply {
  const { process: selector } = message as SelectMessage
  const deadlineMs = Number(headers['connect-timeout-ms'] ?? 0)
  const keepaliveMs = Number(headers['keepalive-ping-interval'] ?? KEEPALIVE_S) * 1_000
  const stream = { keepaliveMs, deadlineMs, fault }
  switch (route) {
    case 'start':
      return followProcess(vm, vm.spawn(askedOf(message as StartMessage, deadlineMs)), stream)
    case 'attach': {
      const ended = vm.findEnd(selector)
      return ended ? tellEnd(ended) : followProcess(vm, vm.find(selector), stream)
    }
    case 'listProcesses': {
      const processes = [...vm.processes.values()].map(({ pid, tag, config }) => ({ pid, tag, config }))
      return { status: 200, body: { processes } }
    }
    case 'signal': {
      const asked = String((message as { signal?: string }).signal)
      const name = SIGNALS[asked]
      const found = vm.find(selector)
      if (!name) throw new RpcError('unimplemented', `invalid signal: ${asked}`)
      found.signal(name)
      return { status: 200, body: {} }
    }
    case 'input': {
      const { stdin } = (message as { input?: { stdin?: string } }).input ?? {}
      if (stdin === undefined) throw new RpcError('unimplemented', 'invalid input type')
      vm.find(selector).write(Buffer.from(stdin, 'base64'))
      return { status: 200, body: {} }
    }
    case 'closeStdin':
      vm.find(selector).closeStdin()
      return { status: 200, body: {} }
    default:
      throw new RpcError('unimplemented', `${route} is no call of the process service`)
  }
}

function askedOf({ process: config, tag, stdin, pty }: StartMessage, timeoutMs: number): Asked {
  if (pty !== undefined) throw new RpcError('unimplemented', 'there are no terminals here')
  return { config, tag, hasStdin: stdin !== false, timeoutMs }
}

/** The way to a sandbox is there while it runs. One that may be resumed by whoever knocks is resumed. */
async function reach(cloud: Cloud, id: string): Promise<Live> {
  const live = cloud.live.get(id)
  if (live?.state === 'snapshotting') await live.transition?.catch(() => {})
  if (live?.state === 'running') return live
  const settings = live?.settings ?? cloud.paused.get(id)?.settings
  const isResumable = settings?.autoResume === true && live?.state !== 'killing'
  if (!isResumable) throw new ProxyError(502, { sandboxId: id, message: 'The sandbox was not found', code: 502 })
  if (live) throw new ProxyError(409, { sandboxId: id, message: 'The sandbox is still transitioning', code: 409 })
  return (await cloud.connect(id)).live
}

/** An answer of the proxy, which has words of its own. */
export class ProxyError extends Error {
  readonly reply: Reply

  constructor(status: number, body: { sandboxId: string; message: string; code: number; port?: number }) {
    super(body.message)
    this.name = 'ProxyError'
    this.reply = { status, body }
  }
}
