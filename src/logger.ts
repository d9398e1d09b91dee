import { AsyncLocalStorage } from 'node:async_hooks'
import { format } from 'node:util'
import { type DestinationStream, type Logger, pino } from 'pino'
import pretty from 'pino-pretty'
import { SandmanError } from './errors.ts'
import { EVENTS, type Events } from './events.ts'

const context = new AsyncLocalStorage<Record<string, unknown>>()

/** Puts `fields` on every line that is logged while `work` runs, however deep: a job's lines all carry its ids. */
export function withLogFields<T>(fields: Record<string, unknown>, work: () => T): T {
  return context.run({ ...context.getStore(), ...fields }, work)
}

type LoggerOptions = {
  level: string
  /** On every line: which process this is. */
  fields: Record<string, unknown>
  /** Takes the secrets out of a finished line. */
  redact: (line: string) => string
  destination?: DestinationStream
}

/** One line an event: JSON for machines, readable text when a person is watching a terminal. */
export function createLogger({ level, fields, redact, destination }: LoggerOptions): Logger {
  return pino(
    {
      level,
      base: fields,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      mixin: () => ({ ...context.getStore() }),
      redact: { paths: ['authorization', 'cookie', 'headers.authorization', 'headers.cookie'], censor: '[redacted]' },
      hooks: { streamWrite: redact },
    },
    destination ??
      (process.stdout.isTTY
        ? pretty({ singleLine: true, messageFormat: '{process}: {msg}', ignore: 'pid,process,event', sync: true })
        : pino.destination({ dest: 1, sync: true })),
  )
}

/** Writes every event as a line. The only place where events become log lines. */
export function logEvents(events: Events, logger: Logger): void {
  events.subscribe(({ name, fields: { error, ...rest } }) => {
    logger[EVENTS[name].level]({ event: name, ...rest, ...describe(error) }, EVENTS[name].says)
  })
}

/** An error that was expected is a word and a sentence; of any other one, the stack is what helps. */
function describe(error: unknown): Record<string, unknown> {
  if (error === undefined) return {}
  return error instanceof SandmanError ? { code: error.code, reason: error.message } : { err: error }
}

const REMEMBERED_MAX = 100

/** What a library writes to the console becomes a line of the log, each text once: some say the same for every connection. */
export function captureConsole(logger: Logger): void {
  const said = new Set<string>()
  const capture =
    (level: 'warn' | 'error') =>
    (...args: unknown[]) => {
      const text = format(...args)
      if (said.has(text)) return
      if (said.size < REMEMBERED_MAX) said.add(text)
      logger[level]({ event: 'console' }, text)
    }
  console.warn = capture('warn')
  console.error = capture('error')
}
