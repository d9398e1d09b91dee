import { type CameTo, isPromise, type Told } from '../diary.ts'
import { type Evidence, type Flaw, flaw } from './flaw.ts'

/** What a client was told that an operation has come to is what it came to, and the checkpoint that it was given is there. */
export function checkPromises({ diary, ledger, truth }: Evidence): Flaw[] {
  const rows = new Map(ledger.operations.map((row) => [row.id, row]))
  const bySandbox = Map.groupBy(ledger.operations, ({ sandbox_id }) => sandbox_id)
  const checkpoints = new Map(ledger.checkpoints.map((row) => [row.id, row]))
  const there = new Set(truth.checkpoints.map(({ ref }) => ref))

  /** Nobody has destroyed the sandbox since, or, of what it only slept on, done anything else to it. */
  const isOwed = (operation: Row, isPause: boolean) =>
    (bySandbox.get(operation.sandbox_id) ?? []).every(
      ({ place, kind, status, outcome }) =>
        place <= operation.place ||
        status === 'refused' ||
        outcome === 'already_done' ||
        (kind !== 'destroy' && !isPause),
    )

  const check = (told: Told & { cameTo: CameTo }): Flaw[] => {
    const { id, kind, sandboxId, cameTo } = told
    const row = rows.get(id)
    if (!row) return [] // which is a flaw of its own
    const { status, outcome, checkpointId } = cameTo
    if (row.status !== status || row.outcome !== outcome)
      return [flaw('wrong', sandboxId, `${kind} ${id} was answered as ${status}, and is ${row.status}`)]
    if (!isPromise(told)) return []
    const checkpoint = checkpoints.get(checkpointId ?? '')
    if (!checkpoint) return [flaw('lost', sandboxId, `${kind} ${id} was done, and ${checkpointId} is in no row`)]
    const { provider_ref } = checkpoint
    if (there.has(provider_ref) || !isOwed(row, checkpoint.kind === 'pause')) return []
    return [flaw('lost', sandboxId, `${kind} ${id} has made ${checkpointId}, and its provider has no ${provider_ref}`)]
  }

  const settled = diary.told.filter((one): one is Told & { cameTo: CameTo } => one.cameTo !== undefined)
  // Who asks twice is answered twice.
  const once = new Map(settled.map((one) => [`${one.id} ${JSON.stringify(one.cameTo)}`, one]))
  return [...once.values()].flatMap(check)
}

type Row = Evidence['ledger']['operations'][number]
