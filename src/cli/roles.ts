import type { Config } from '../config.ts'
import { Events } from '../events.ts'
import type { ReadyMessage } from '../fleet/child.ts'
import { findDatabase } from '../fleet/running-file.ts'
import { exitOnCrash, type Running, runUntilSignal } from '../fleet/shutdown.ts'
import { captureConsole, createLogger, logEvents } from '../logger.ts'
import { exit } from './exits.ts'
import type { Session } from './session.ts'

/** The processes of a fleet. What they print is their log. */

export async function dev(session: Session): Promise<number> {
  const { config, events } = await begin('dev', session)
  const { startDev } = await import('../fleet/dev.ts')
  return stay(session, events, (signal) => startDev(config, events, { signal, say: (line) => console.log(line) }))
}

export async function web(session: Session, supervised: boolean): Promise<number> {
  const { config, events } = await begin('web', session)
  const { startWeb } = await import('../fleet/web.ts')
  return stay(session, events, async () => startWeb(await findDatabase(config), events), supervised)
}

export async function worker(session: Session, supervised: boolean, queues: string | undefined): Promise<number> {
  const { config, events } = await begin('worker', session, queues === undefined ? {} : { SANDMAN_QUEUES: queues })
  const { startWorker } = await import('../fleet/worker.ts')
  return stay(session, events, async () => startWorker(await findDatabase(config), events), supervised)
}

export async function migrate(session: Session): Promise<number> {
  const { config, events } = await begin('migrate', session)
  const { migrateAll } = await import('../fleet/migrate.ts')
  await migrateAll(await findDatabase(config), events)
  return exit('done')
}

async function begin(
  name: string,
  session: Session,
  overrides: Record<string, string> = {},
): Promise<{ config: Config; events: Events }> {
  const config = await session.config(overrides)
  const events = new Events()
  const redact = (line: string) => session.redact(line)
  const logger = createLogger({ level: config.logLevel, fields: { process: name, pid: process.pid }, redact })
  logEvents(events, logger)
  captureConsole(logger)
  exitOnCrash(events)
  return { config, events }
}

/** Until a signal comes. */
async function stay(
  session: Session,
  events: Events,
  start: (signal: AbortSignal) => Promise<Running & { url?: string }>,
  supervised = false,
): Promise<number> {
  const failure = await runUntilSignal(
    async (signal) => {
      const running = await start(signal)
      if (supervised) process.send?.({ ready: true, ...(running.url && { url: running.url }) } satisfies ReadyMessage)
      return running
    },
    { events, supervised },
  )
  if (failure === undefined) return exit('done')
  await session.complain(failure)
  return exit('failed')
}
