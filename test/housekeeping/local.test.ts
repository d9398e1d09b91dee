import { readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import type { Sandbox } from '../../src/index.ts'
import { describeWorld } from '../support/describe-world.ts'
import { housekeeper } from '../support/housekeeper.ts'
import { loseProcesses, type World } from '../support/world.ts'
import { settled } from './setup.ts'

const folderOf = ({ dataFolder, place }: World, kind: 'instances' | 'checkpoints', ref: string) =>
  path.join(dataFolder, 'sandboxes', place.fleet, kind, ref)

const local = { backend: 'local', agent: { command: ['sleep', '1000'] } }

describeWorld(
  'the sweeper on real processes',
  (world) => {
    const isAlive = async ({ id }: Sandbox) => {
      const { execution } = await world().fleet.execute(id, { command: ['true'], wait: '30s' })
      return execution.status === 'succeeded'
    }

    test('finds what was lost or left behind on this machine, and nothing else', async () => {
      const [lost, deleted, dead, withoutCheckpoint, healthy, asleep, ...others] = await Promise.all([
        world().running(local),
        world().running(local),
        world().suspended(local),
        world().suspended(local),
        world().running(local),
        world().suspended(local),
        ...Array.from({ length: 7 }, () => world().running({ backend: 'local' })),
      ])
      const keeper = housekeeper(world())
      await keeper.sweep('local', { asked: true })
      expect(await keeper.findings()).toEqual([])
      const place = (
        await readFile(path.join(world().dataFolder, 'sandboxes', world().place.fleet, 'home'), 'utf8')
      ).trim()
      expect(await keeper.state('local')).toMatchObject({ place, instances: 6 + others.length, stopped_at: null })

      await loseProcesses(world(), lost)
      await loseProcesses(world(), deleted)
      await rm(folderOf(world(), 'instances', deleted.providerRef as string), { recursive: true })
      await loseProcesses(world(), dead)
      await rm(folderOf(world(), 'checkpoints', withoutCheckpoint.checkpoint?.providerRef as string), {
        recursive: true,
      })
      await keeper.sweepTwice('local')
      expect(await settled(world(), lost)).toMatchObject({ state: 'gone', goneReason: 'instance_lost' })
      expect(await settled(world(), deleted)).toMatchObject({ state: 'gone', goneReason: 'expired' })
      expect(await settled(world(), dead)).toMatchObject({ state: 'gone', goneReason: 'checkpoint_missing' })
      // Its frozen processes are what it is: it is woken without what is only a copy of its files.
      const { sandbox } = await world().fleet.resume(withoutCheckpoint.id, { wait: '30s' })
      expect(sandbox.state).toBe('running')
      for (const each of [healthy, ...others]) expect(await isAlive(each)).toBe(true)
      expect((await world().fleet.get(asleep.id)).state).toBe('suspended')
      const { answer } = await world().fleet.why(deleted.id)
      expect(answer).toContain('the sweeper had asked to end it if it is lost')
    })

    test('is not kept from its work by an instance whose labels cannot be read', async () => {
      const [unreadable, healthy] = await Promise.all([
        world().running({ backend: 'local' }),
        world().running({ backend: 'local' }),
      ])
      const labels = path.join(folderOf(world(), 'instances', unreadable.providerRef as string), 'instance.json')
      const before = await readFile(labels)
      await writeFile(labels, '{')
      const keeper = housekeeper(world())
      await keeper.sweepTwice('local')
      expect((await keeper.findings()).filter(({ sandbox_id }) => sandbox_id === unreadable.id)).toEqual([])
      const { operation } = await world().fleet.destroy(healthy.id, { wait: '30s' })
      expect(operation.status).toBe('succeeded')
      await writeFile(labels, before)
      expect((await world().fleet.get(unreadable.id)).state).toBe('running')
    })

    test('leaves alone what is on another machine: there it is in the lists', async () => {
      const there = await world().running({ backend: 'local' })
      const keeper = housekeeper(world())
      await keeper.sweep('local', { asked: true })
      // The same rows, seen from a machine that has none of it.
      const { dataFolder, ...rest } = world()
      const elsewhere = housekeeper({ ...rest, dataFolder: `${dataFolder}-elsewhere` } as World)
      await elsewhere.sweepTwice('local')
      await rm(`${dataFolder}-elsewhere`, { recursive: true, force: true })
      expect((await elsewhere.findings()).filter(({ sandbox_id }) => sandbox_id === there.id)).toEqual([])
      expect(await isAlive(there)).toBe(true)
    })
  },
  { stores: ['postgres'] },
)
