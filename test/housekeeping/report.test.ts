import { beforeEach, expect, test } from 'vitest'
import { abilitiesOf, createFleet } from '../../src/index.ts'
import { environmentOf, sandman as type } from '../cli/setup.ts'
import { describeWorld } from '../support/describe-world.ts'
import { housekeeper } from '../support/housekeeper.ts'
import { testBackend } from '../support/test-backend.ts'
import { forget, lose, others, settled, stray } from './setup.ts'

describeWorld(
  'a sweep that is asked for',
  (world) => {
    beforeEach(() => forget(world()))

    test('with dryRun reports what, why and what was seen, and touches nothing', async () => {
      const { fleet, provider } = world()
      const sweeping = await world().startWorker({ queues: ['sweeper', 'reaper'] })
      const lost = await world().running()
      const idle = await world().running({ ttl: { idle: '1s' } })
      await others(world())
      lose(world(), lost)
      const orphan = stray(world(), `sbx_${'0'.repeat(26)}`)
      const report = await fleet.sweep({ dryRun: true, backend: 'test' })
      expect(report).toMatchObject({
        unanswered: [],
        isCut: false,
        sweeps: expect.arrayContaining([
          expect.objectContaining({ backend: 'test', place: 'the test account', failing: null, stopped: null }),
        ]),
      })
      expect(report.findings).toEqual(
        expect.arrayContaining([
          expect.objectContaining({
            kind: 'instance_missing',
            sandboxId: lost.id,
            ref: lost.providerRef,
            what: expect.stringContaining('its provider has nothing of it'),
            isCertain: false,
            lookAt: expect.any(Date),
            actedAt: null,
            looks: [
              { at: expect.any(String), place: 'the test account', asked: expect.any(String), saw: expect.any(String) },
            ],
          }),
          expect.objectContaining({ kind: 'instance_unowned', ref: orphan.ref, isCertain: false }),
        ]),
      )
      expect((await fleet.get(lost.id)).state).toBe('running')
      expect(provider.instances.has(orphan.ref)).toBe(true)
      await expect
        .poll(
          async () =>
            (await fleet.sweep({ dryRun: true, backend: 'test' })).overdue.length +
            Number((await fleet.get(idle.id)).state === 'suspended'),
        )
        .toBeGreaterThan(0)
      await sweeping.stop()

      // Once what was seen has been seen twice, it is certain, and still nothing is done.
      const keeper = housekeeper(world())
      keeper.advance(keeper.deps.housekeeping.graceMs)
      await keeper.sweep('test', { act: false })
      expect((await keeper.findings()).map(({ looks, acted_at }) => [looks.length, acted_at])).toEqual([
        [2, null],
        [2, null],
      ])
      await keeper.sweep('test') // which does not have to wait for the dry run
      expect((await settled(world(), lost)).state).toBe('gone')
      expect(provider.instances.has(orphan.ref)).toBe(false)
    })

    test('says whom nobody has swept, and refuses a backend that there is not', async () => {
      const { fleet } = world()
      await world().running()
      const { unanswered } = await fleet.sweep({ dryRun: true, wait: '1s' })
      expect(unanswered).toContain('test')
      await expect(fleet.sweep({ backend: 'nope' })).rejects.toMatchObject({ code: 'backend_unknown' })
      await expect(fleet.sweep({ dry: true } as never)).rejects.toMatchObject({ code: 'request_invalid' })
      const left = new AbortController()
      left.abort(new Error('enough'))
      await expect(fleet.sweep({ signal: left.signal })).rejects.toThrow('enough')
    })

    test('reports which sandboxes are past which limit, their own or their fleet’s', async () => {
      const { place } = world()
      const own = await world().running({ ttl: { hard: '1s' } })
      const fleet = createFleet({
        ...place,
        backends: [abilitiesOf(testBackend({ url: world().provider.url }))],
        ttl: { idle: 1_000 },
      })
      await expect
        .poll(async () => (await fleet.sweep({ dryRun: true, wait: 0 })).overdue)
        .toEqual(
          expect.arrayContaining([
            expect.objectContaining({
              sandboxId: own.id,
              limit: 'hard',
              does: 'destroy',
              of: 'sandbox',
              limitMs: 1_000,
            }),
            expect.objectContaining({ sandboxId: own.id, limit: 'idle', does: 'pause', of: 'fleet' }),
          ]),
        )
      expect((await fleet.get(own.id)).state).toBe('running')
      await fleet.close()
    })
  },
  { stores: ['redis'] },
)

describeWorld(
  'the command line',
  (world) => {
    beforeEach(() => forget(world()))

    async function sandman(...args: string[]) {
      const { code, out, err } = await type(args, { env: environmentOf(world()) })
      return { code, output: out + err }
    }

    test('tells why a sandbox is where it is', async () => {
      const { id } = await world().suspended()
      const { code, output } = await sandman('why', id)
      expect(code).toBe(0)
      expect(output).toContain(`${id} has been asleep since`)
      expect(output.split('\n').length).toBeGreaterThan(5)
      const { sandbox_id, story } = JSON.parse((await sandman('why', id, '--json')).output) as Record<string, unknown>
      expect({ sandbox_id, story }).toMatchObject({ sandbox_id: id, story: expect.any(Array) })
      expect(await sandman('why', `sbx_${'0'.repeat(26)}`)).toMatchObject({
        code: 4,
        output: expect.stringContaining('There is no sandbox'),
      })
      expect(await sandman('why')).toMatchObject({
        code: 2,
        output: expect.stringContaining('why needs <sandbox>: the id of a sandbox'),
      })
    })

    test('prints a report of a sweep, and says by its exit code when a sweep is stopped', async () => {
      const sweeping = await world().startWorker({ queues: ['sweeper'] })
      const lost = await world().running()
      await others(world())
      lose(world(), lost)
      const dry = await sandman('sweep', '--dry-run', '--backend', 'test')
      expect(dry.output).toContain('test at the test account: round')
      expect(dry.output).toContain(`instance_missing ${lost.providerRef} (${lost.id})`)
      expect(dry.output).toContain('only suspected: looked at again after')
      expect(dry.code).toBe(0)
      world().provider.instances.clear()
      const stopped = await sandman('sweep', '--dry-run', '--backend', 'test')
      expect(stopped.output).toContain('STOPPED since')
      expect(stopped.code).toBe(1)
      expect(stopped.output).not.toContain('as it should be')
      expect(await sandman('sweep', '--believe', '--dry-run')).toMatchObject({
        code: 2,
        output: expect.stringContaining('believe: is not for a dry run'),
      })
      const believed = await sandman('sweep', '--believe', '--backend', 'test', '--json', '--wait', '30s')
      expect(JSON.parse(believed.output).sweeps).toContainEqual(
        expect.objectContaining({ backend: 'test', stopped: null, believed_until: expect.any(String) }),
      )
      await sweeping.stop()
    })
  },
  { stores: ['postgres'] },
)
