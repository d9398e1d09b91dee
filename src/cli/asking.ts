import { SandmanError } from '../errors.ts'
import { createFleet, type Fleet } from '../fleet/fleet.ts'
import { ttlOf } from '../fleet/requests.ts'
import { findDatabase } from '../fleet/running-file.ts'
import { exit } from './exits.ts'
import type { Session } from './session.ts'

/** How long a command that was interrupted may take to say so. */
const LAST_WORDS_MS = 1_000

const UNHEARD =
  'the queue did not answer (REDIS_URL). What was accepted is safe, and the workers come upon it within seconds; "sandman doctor" looks what is wrong.'

/** For a command that asks as an app would. */
export async function withFleet(
  session: Session,
  work: (fleet: Fleet, interrupted: AbortSignal) => Promise<number>,
): Promise<number> {
  const { databaseUrl, redisUrl, fleet: name, ttl } = await findDatabase(await session.config())
  let isUnheard = false
  const fleet = createFleet({
    databaseUrl,
    fleet: name,
    ttl: ttlOf(ttl),
    ...(redisUrl !== undefined && { redisUrl }),
    onEvent(event) {
      isUnheard ||= event.name === 'operation.unheard' || event.name === 'execution.unheard'
    },
  })
  const interrupted = session.io.interrupts()
  const patience = endOfPatience(interrupted)
  try {
    const code = await Promise.race([work(fleet, interrupted), patience.isOver])
    if (code !== undefined) return code
    const next = 'What was asked for may have been accepted: "sandman ls" tells.'
    await session.complain(`interrupted before anybody answered. ${next}`)
    return exit('interrupted')
  } catch (error) {
    if (interrupted.aborted && error === interrupted.reason) return exit('interrupted')
    throw withPlace(error, { fleet: name, databaseUrl })
  } finally {
    patience.forget()
    if (isUnheard) await session.complain(UNHEARD)
    await fleet.close()
  }
}

/** Whatever does not answer, such as a database that hangs, keeps nobody who has had enough. */
function endOfPatience(interrupted: AbortSignal): { isOver: Promise<undefined>; forget(): void } {
  let timer: NodeJS.Timeout | undefined
  const isOver = new Promise<undefined>((resolve) => {
    interrupted.addEventListener('abort', () => {
      timer = setTimeout(() => resolve(undefined), LAST_WORDS_MS)
    })
  })
  return { isOver, forget: () => clearTimeout(timer) }
}

/** Most often an id that cannot be found is looked for in the wrong place. */
function withPlace(error: unknown, { fleet, databaseUrl }: { fleet: string; databaseUrl: string }): unknown {
  if (!(error instanceof SandmanError) || !error.code.endsWith('_not_found')) return error
  const { host, pathname } = new URL(databaseUrl)
  const where = `${host}${pathname}`
  return new SandmanError(
    error.code,
    `${error.message} It was looked for in fleet ${fleet} (SANDMAN_FLEET) of the Postgres at ${where} (DATABASE_URL); "sandman ls" lists what is there.`,
    { details: error.details, cause: error },
  )
}
