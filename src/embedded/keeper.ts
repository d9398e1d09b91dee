/**
 * A process that runs one service (Postgres; in tests also Redis) and ends it together with its owner.
 *
 * The owner may be killed without a chance to clean up; its end of the IPC channel then closes, and the keeper stops the
 * service and removes what was asked for. The keeper has a process group of its own, so that Ctrl-C reaches the owner
 * first: a database that stops before the workers would turn their last minute into errors.
 */
import { spawn } from 'node:child_process'
import { closeSync, openSync, rmSync, writeSync } from 'node:fs'

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
  /** Its output of this run, up to a bound. */
  logFile: string | undefined
  /** Folders that are removed once it has stopped. If it never got ready, its owner may want to try again, and removes them. */
  removeAfter: string[]
}

export type KeeperMessage = { kind: 'ready'; pid: number } | { kind: 'ended'; code: number | null; output: string }

/** After a stop signal; what has not ended by then is killed. */
const STOP_MS = 15_000
const OUTPUT_KEPT = 8_000
const LOG_BYTES_MAX = 10_000_000

const spec = JSON.parse(process.argv[2] ?? '') as ServiceSpec
const service = spawn(spec.command, spec.args, {
  cwd: spec.cwd,
  env: spec.env,
  stdio: ['ignore', 'pipe', 'pipe'],
  ...(spec.uid !== undefined && { uid: spec.uid }),
  ...(spec.gid !== undefined && { gid: spec.gid }),
})

const log = createLog(spec.logFile)
let output = ''
let isReady = false
for (const stream of [service.stdout, service.stderr]) {
  stream.setEncoding('utf8').on('data', (text: string) => {
    log(text)
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
if (!process.connected) stop() // the owner was gone before anybody listened
// Whoever wants to end the service tells the owner, or the service itself.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

/** A log that cannot be written (a full disk, a removed folder) is no reason to leave the service alone. */
function createLog(file: string | undefined): (text: string) => void {
  let left = LOG_BYTES_MAX
  let descriptor: number | undefined
  try {
    if (file) descriptor = openSync(file, 'w', 0o600)
  } catch {}
  return (text) => {
    if (descriptor === undefined) return
    try {
      writeSync(descriptor, text)
      left -= text.length
    } catch {
      left = 0
    }
    if (left > 0) return
    closeSync(descriptor)
    descriptor = undefined
  }
}

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
