import { type Evidence, type Flaw, flaw } from './flaw.ts'

/** What somebody may rely on is there, and nothing is there that nobody may. */
export function checkCheckpoints({ ledger, truth }: Evidence): Flaw[] {
  const found: Flaw[] = []
  const sandboxes = new Map(ledger.sandboxes.map((row) => [row.id, row]))
  const isDestroyed = (id: string) =>
    ledger.operations.some((one) => one.sandbox_id === id && one.kind === 'destroy' && one.status === 'succeeded')
  const there = new Set(truth.checkpoints.map(({ ref }) => ref))
  const rows = new Map(ledger.checkpoints.map((row) => [row.provider_ref, row]))
  for (const { id, sandbox_id, provider_ref, kind, status, isPromised } of ledger.checkpoints) {
    const isReliedOn = isPromised || sandboxes.get(sandbox_id)?.checkpoint_id === id
    if (status === 'ready' && isReliedOn && !there.has(provider_ref))
      found.push(flaw('leaked', sandbox_id, `${id} is ready, and its provider has no ${provider_ref}`))
    if (status === 'deleted' && kind === 'snapshot' && isPromised && !isDestroyed(sandbox_id))
      found.push(flaw('lost', sandbox_id, `${id} was promised, and has been deleted without its sandbox`))
    if (status === 'missing' && isReliedOn)
      found.push(flaw('wrong', sandbox_id, `${id} is said to be missing, and its provider has lost nothing`))
  }
  for (const { backend, ref } of truth.checkpoints) {
    const row = rows.get(ref)
    const sandbox = sandboxes.get(row?.sandbox_id ?? '')
    const isOwned = row?.status === 'ready' && (row.isPromised || sandbox?.checkpoint_id === row.id)
    // What is left of a sandbox that was killed is kept for as long as it would have slept.
    const isKept = row?.status === 'ready' && sandbox?.state === 'gone'
    if (!isOwned && !isKept)
      found.push(flaw('leaked', row?.sandbox_id, `${backend} has ${ref}, and it is ${row?.status ?? 'in no row'}`))
  }
  return found
}
