/**
 * A process that runs one service (Postgres; in tests also Redis) and ends it together with its owner.
 *
 * The owner may be killed without a chance to clean up; its end of the IPC channel then closes, and the keeper stops the
 * service and removes what was asked for. The keeper has a process group of its own, so that Ctrl-C reaches the owner
 * first: a database that stops before the workers would turn their last minute into errors.
 */
import { spawn } from 'node:child_process'
import { appendFileSync, rmSync } from 'node:fs'

export type ServiceSpec = {
  command: string
  args: string[]
  cwd: string
  env: Record<string, string>
  uid: number | undefined
  gid: number | undefined
  /** The service is ready once this appears in its output. */
  readyText: string
  stopSignal: NodeJS.Signals
  /** Its output is appended to this. */
  logFile: string | undefined
  /** Folders that are removed once it has stopped. If it never got ready, its owner may want to try again, and removes them. */
  removeAfter: string[]
}

export type KeeperMessage = { kind: 'ready'; pid: number } | { kind: 'ended'; code: number | null; output: string }

/** After a stop signal; what has not ended by then is killed. */
const STOP_MS = 15_000
const OUTPUT_KEPT = 8_000

const spec = JSON.parse(process.argv[2] ?? '') as ServiceSpec
const service = spawn(spec.command, spec.args, {
  cwd: spec.cwd,
  env: spec.env,
  stdio: ['ignore', 'pipe', 'pipe'],
  ...(spec.uid !== undefined && { uid: spec.uid }),
  ...(spec.gid !== undefined && { gid: spec.gid }),
})

let output = ''
let isReady = false
for (const stream of [service.stdout, service.stderr]) {
  stream.setEncoding('utf8').on('data', (text: string) => {
    if (spec.logFile) appendFileSync(spec.logFile, text)
    output = (output + text).slice(-OUTPUT_KEPT)
    if (isReady || !output.includes(spec.readyText)) return
    isReady = true
    tell({ kind: 'ready', pid: service.pid as number })
  })
}

service.on('error', (error) => {
  output += error.message
  ended(null)
})
service.on('close', (code) => ended(code))
process.on('disconnect', stop)
process.on('message', stop)
// Whoever wants to end the service tells the owner, or the service itself.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

function stop(): void {
  service.kill(spec.stopSignal)
  setTimeout(() => service.kill('SIGKILL'), STOP_MS).unref()
}

function ended(code: number | null): void {
  const ownerCleansUp = !isReady && process.connected
  if (!ownerCleansUp) for (const folder of spec.removeAfter) rmSync(folder, { recursive: true, force: true })
  tell({ kind: 'ended', code, output })
  process.exit(0)
}

function tell(message: KeeperMessage): void {
  if (process.connected) process.send?.(message)
}
