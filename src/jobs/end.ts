import { type Backend, BackendError } from '../backends/backend.ts'
import type { Ending } from '../db/ending.ts'
import { isCurrent } from '../db/take.ts'
import { failure } from '../sandbox/failures.ts'
import { type Known, refOf } from './look.ts'
import type { Work } from './operation.ts'
import type { Provider } from './provider.ts'

/**
 * Ends an instance, whatever it is doing, and returns when its provider says that there is none. It carries the incarnation
 * that was just seen, so that a late call cannot hit what was resumed meanwhile.
 */
export async function endRef(
  { backend, provider, name }: { backend: Backend; provider: Provider; name: string },
  ref: string,
  /** Asked after the last look, and directly before it is ended. */
  mayEnd: () => Promise<boolean> = async () => true,
): Promise<'ended' | 'spared'> {
  const lookNow = () => provider.ask('look', (call) => backend.look(ref, call))
  const seen = await lookNow()
  if (seen.is === 'absent') return 'ended'
  const incarnation = 'incarnation' in seen ? (seen.incarnation ?? null) : null
  if (!(await mayEnd())) return 'spared'
  await provider.ask('end', (call) => backend.end({ ref, incarnation }, call))
  await provider.poll(provider.patience.changingMs, async () => {
    const { is } = await lookNow()
    if (is === 'absent') return { answer: undefined }
    const still = `${name} was ended, and its provider still shows it ${is}.`
    return { still: new BackendError('sandbox_unreachable', still) }
  })
  return 'ended'
}

/** Somebody else works on the operation by now, or it has settled: whatever is there is not this attempt's to end. */
export class TakenOver extends Error {
  constructor() {
    super('a newer attempt has taken over')
  }
}

/**
 * The fence keeps an attempt that was overtaken from writing. It must not end anything either: what is there by now may be what the
 * newer one has made or woken, or a later life.
 */
export async function endInstance({ db, attempt, backend, provider, sandbox }: Work, ref: string): Promise<void> {
  const ending = await endRef({ backend, provider, name: sandbox.id }, ref, () => isCurrent(db, attempt))
  if (ending === 'spared') throw new TakenOver()
}

/** Ends what the sandbox's row names, and everything else that carries its label: an answer that was lost may have left some. */
export async function endAll(work: Work): Promise<void> {
  const { backend, provider, sandbox } = work
  if (sandbox.provider_ref !== null) await endInstance(work, sandbox.provider_ref)
  const found = await provider.ask('find', (call) => backend.find(sandbox.id, call))
  for (const { ref } of found) await endInstance(work, ref)
}

/** The ending of a sandbox that had vanished before anybody touched it. What remains of it is ended first. */
export async function vanished(work: Work, seen: Extract<Known, { is: 'absent' | 'lost' }>) {
  const { id } = work.sandbox
  if (seen.is === 'lost') await endInstance(work, refOf(work))
  const [message, reason] =
    seen.is === 'absent'
      ? ([`Its provider says that there is no ${id} any more.`, 'expired'] as const)
      : ([`${id} was lost, and nothing of it can be resumed: ${seen.why}.`, 'instance_lost'] as const)
  const error = failure('sandbox_expired', message, work.checkpoint?.id)
  return { status: 'failed', error, rest: { state: 'gone', reason } } as const satisfies Ending
}
