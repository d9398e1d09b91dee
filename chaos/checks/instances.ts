import { type Evidence, type Flaw, flaw } from './flaw.ts'

/** What lives in the ledger is at its provider, as it is said to be, and nothing else is there. */
export function checkInstances({ ledger, truth }: Evidence): Flaw[] {
  const found: Flaw[] = []
  const bySandbox = Map.groupBy(truth.instances, ({ sandboxId }) => sandboxId)
  for (const [sandboxId, instances] of bySandbox)
    if (instances.length > 1)
      found.push(flaw('doubled', sandboxId, `has ${instances.length} instances: ${instances.map(({ ref }) => ref)}`))
  const alive = new Map(ledger.sandboxes.filter(({ state }) => state !== 'gone').map((row) => [row.id, row]))
  for (const { sandboxId, ref, is, backend } of truth.instances) {
    const row = alive.get(sandboxId)
    if (row?.provider_ref !== ref || row.backend !== backend)
      found.push(flaw('leaked', sandboxId, `${ref} is ${is} at ${backend}, and no sandbox that lives has it`))
  }
  const checkpoints = new Map(ledger.checkpoints.map((row) => [row.id, row]))
  for (const row of alive.values()) {
    const { id, state, provider_ref, incarnation, checkpoint_id } = row
    const instance = truth.instances.find((one) => one.ref === provider_ref)
    if (!instance) found.push(flaw('leaked', id, `is ${state}, and ${row.backend} has no ${provider_ref}`))
    else if (['running', 'suspended'].includes(state) && instance.is !== state)
      found.push(flaw('lost', id, `is said to be ${state}, and at ${row.backend} it is ${instance.is}`))
    else if (state === 'running' && instance.incarnation !== incarnation)
      found.push(flaw('wrong', id, `runs as ${instance.incarnation}, and its row names ${incarnation}`))
    else if (state === 'suspended' && instance.checkpointRef !== checkpoints.get(checkpoint_id ?? '')?.provider_ref)
      found.push(flaw('wrong', id, `sleeps on ${instance.checkpointRef}, and its row names ${checkpoint_id}`))
  }
  return found
}
