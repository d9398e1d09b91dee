import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Sandbox } from '../../src/index.ts'
import { housekeeper } from '../support/housekeeper.ts'
import { describeStores } from '../support/stores.ts'
import { createWorld, type World } from '../support/world.ts'

describeStores('incident I: two deployments share an account, a database and a queue', (kind) => {
  let ours: World
  let theirs: World
  beforeAll(async () => {
    ours = await createWorld(kind)
    theirs = await createWorld(kind, { provider: ours.provider, databaseUrl: ours.home.databaseUrl })
    await Promise.all([ours.startWorker(), theirs.startWorker()])
  })
  afterAll(async () => {
    await theirs?.end()
    await ours?.end()
  })

  test('each sweeps and reaps its own, and nothing of the other’s, however often', async () => {
    const some = async (world: World): Promise<Sandbox[]> => [
      await world.running(),
      await world.suspended(),
      await world.running({ ttl: { idle: '1h' } }),
      await world.running(),
      await world.running(),
    ]
    const [mine, others] = [await some(ours), await some(theirs)]
    const [lost] = mine as [Sandbox]
    ours.provider.instances.delete(lost.providerRef as string)
    // The other's own: an instance whose sandbox is gone, which is theirs to end.
    const gone = await theirs.running()
    await theirs.fleet.kill(gone.id, { wait: '30s' })
    const left = { ...[...ours.provider.instances.values()].find(({ sandboxId }) => sandboxId === others[0]?.id) }
    Object.assign(left, { ref: 'left-over', sandboxId: gone.id })
    ours.provider.instances.set('left-over', left as never)

    const keeper = housekeeper(ours, { limits: { hardMs: 100 * 86_400_000 } })
    for (let times = 0; times < 3; times++) {
      await keeper.sweepTwice()
      await keeper.reap()
    }
    expect(
      keeper.events.happened.flatMap(({ fields }) =>
        others.some(({ id }) => id === fields.sandboxId) ? [fields] : [],
      ),
    ).toEqual([])
    for (const { id, state } of others) expect((await theirs.fleet.get(id)).state).toBe(state)
    expect(ours.provider.instances.has('left-over')).toBe(true)
    await expect.poll(async () => (await ours.fleet.get(lost.id)).state).toBe('gone')

    const their = housekeeper(theirs)
    await their.sweepTwice()
    expect(ours.provider.instances.has('left-over')).toBe(false)
    for (const { id, state } of mine.slice(1, 2)) expect((await ours.fleet.get(id)).state).toBe(state)
    await ours.expectInvariants()
    await theirs.expectInvariants()
  })

  test('nobody asks for what is another’s: not by its id, not for its story, not to be swept', async () => {
    const { id } = await theirs.running()
    await expect(ours.fleet.get(id)).rejects.toMatchObject({ code: 'sandbox_not_found' })
    await expect(ours.fleet.touch(id)).rejects.toMatchObject({ code: 'sandbox_not_found' })
    await expect(ours.fleet.why(id)).rejects.toMatchObject({ code: 'sandbox_not_found' })
    await ours.startWorker({ queues: ['sweeper'] })
    const report = await ours.fleet.sweep({ dryRun: true, backend: 'test' })
    expect(report.findings.filter(({ sandboxId }) => sandboxId === id)).toEqual([])
    expect(report.unanswered).toEqual([])
  })
})
