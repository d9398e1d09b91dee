import type { ListedCheckpoint, ListedInstance, Lists } from '../../src/backends/backend.ts'
import type { Asking } from './checkpoints.ts'
import type { Abilities, Cloud } from './cloud.ts'
import { isBroken } from './perform.ts'

const PAGE_SIZES = [2, 5, 100]

/** Lists lag behind what there is, come in pages, and now and then leave something out. */
export function listsOf(cloud: Cloud, abilities: Abilities, call: Asking): Lists {
  const { engine, conduct, fleet } = cloud
  const { name, pausing, canSnapshot } = abilities
  const random = cloud.random.fork(`lists of ${name}`)
  const pageSize = random.pick(PAGE_SIZES)
  const lagMs = random.pick([0, 0, 3_000, 15_000])

  const page = <T extends { ref: string }>(all: T[], cursor: string | undefined) => {
    const shown = conduct.happens('list_short') ? all.filter(() => random.chance(0.5)) : all
    const rest = shown.filter(({ ref }) => ref > (cursor ?? '')).sort((a, b) => (a.ref < b.ref ? -1 : 1))
    const items = rest.slice(0, pageSize)
    return { items, next: rest.length > pageSize ? items.at(-1)?.ref : undefined }
  }
  const isOld = (madeAtMs: number) => madeAtMs <= engine.nowMs - lagMs

  return {
    place: async () => ({ name: 'the simulated account', holds: () => true }),
    instances: (cursor, given) =>
      call('list', 'instances', given, (reply) => {
        const there = [...cloud.instances.values()].filter(({ madeAtMs }) => isOld(madeAtMs))
        const lately = cloud.ended.filter(({ endedAtMs }) => !isOld(endedAtMs))
        const own = [...there, ...lately].filter((instance) => instance.backend === name && instance.fleet === fleet)
        const listed = own.map((instance): ListedInstance => {
          const { ref, sandboxId, life } = instance
          const isLost = instance.state === 'lost' || isBroken(cloud, abilities, instance)
          return { ref, sandboxId, life, ...(isLost && { isLost }) }
        })
        reply.with(page(listed, cursor))
      }),
    checkpoints:
      pausing !== 'named' && !canSnapshot
        ? 'none'
        : (cursor, given) =>
            call('list', 'checkpoints', given, (reply) => {
              const own = [...cloud.checkpoints.values()].filter(
                (kept) =>
                  kept.backend === name && kept.fleet === fleet && isOld(kept.madeAtMs) && !kept.ref.includes('@'),
              )
              const listed = own.map(({ ref, sandboxId, kind }): ListedCheckpoint => ({ ref, sandboxId, kind }))
              reply.with(page(listed, cursor))
            }),
  }
}
