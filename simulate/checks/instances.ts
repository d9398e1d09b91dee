import { FLEET } from '../world.ts'
import type { Check } from './all.ts'

/** After these, an instance may sleep, and nobody has asked it since. */
const ASLEEP = ['an instance was put to sleep', 'its time was up', 'a pause kept nothing']

/** No leak in either direction: every instance has its row, and every row its instance. Nobody else's is touched. */
export const checkInstances: Check = async ({ world, db, found }) => {
  const { cloud } = world
  const rows = await db.selectFrom('sandboxes').selectAll().where('state', '<>', 'gone').orderBy('id').execute()
  const owners = new Map(rows.map((row) => [`${row.backend} ${row.provider_ref}`, row]))
  for (const { ref, backend, sandboxId, fleet, state } of cloud.instances.values()) {
    if (fleet === FLEET && !owners.has(`${backend} ${ref}`))
      found('no instance without a sandbox', sandboxId, `${ref} is ${state} at ${backend}, and no sandbox has it`)
  }
  for (const { id, backend, provider_ref, state } of rows) {
    const instance = cloud.instances.get(provider_ref ?? '')
    const seen = instance?.backend === backend ? instance.state : undefined
    const slept = cloud.mishaps.some(({ ref, what }) => ref === provider_ref && ASLEEP.includes(what))
    const isRight = seen === state || (seen === 'suspended' && state === 'running' && slept)
    if (!isRight)
      found('no sandbox without its instance', id, `it is ${state} as ${provider_ref}, which is ${seen ?? 'not there'}`)
  }
  for (const fleet of ['another', 'nobody']) {
    const left = [...cloud.instances.values()].filter(
      (instance) => instance.fleet === fleet && instance.state === 'running',
    )
    if (left.length !== world.abilities.length)
      found(
        "nobody else's is touched",
        fleet,
        `${left.length} of ${world.abilities.length} instances of ${fleet} are left`,
      )
  }
}
