import type { Fleet } from '../fleet/fleet.ts'
import { count } from '../fleet/words.ts'
import type { Kind } from '../sandbox/judge.ts'
import { UsageError } from './arguments.ts'
import { printMetadata } from './metadata.ts'
import { paint, STATE_COLOURS } from './paint.ts'
import type { Session } from './session.ts'
import { cut } from './width.ts'

/** More are only counted. */
const SHOWN_MAX = 10

type Asked = { kind: Kind; warning: string; ids: readonly string[]; signal: AbortSignal }

/** Whether somebody means it. What it would end is shown first. */
export async function confirm(
  fleet: Fleet,
  session: Session,
  { kind, warning, ids, signal }: Asked,
): Promise<'yes' | 'refused' | 'interrupted'> {
  const { question, err } = session.io
  if (!question) throw new UsageError(`${kind} cannot ask here whether it is meant: say so with --yes`)
  for (const id of ids.slice(0, SHOWN_MAX)) {
    const { state, backend, metadata } = await fleet.get(id)
    const about = `  ${id}  ${state}  ${backend}  ${printMetadata(metadata)}`.trimEnd()
    await session.note(cut(about, err.columns()).replace(state, paint(state, STATE_COLOURS[state], err.hasColours)))
  }
  if (ids.length > SHOWN_MAX) await session.note(`  and ${ids.length - SHOWN_MAX} more`)
  const answer = await question(`${warning} ${kind} ${count(ids.length, 'sandbox')}? [y/N] `, signal).catch(
    (error: unknown) => {
      if (!signal.aborted) throw error
    },
  )
  if (signal.aborted || answer === undefined) return 'interrupted'
  if (/^\s*y(es)?\s*$/i.test(answer)) return 'yes'
  await session.note('Nothing was asked for.')
  return 'refused'
}
