import { expect, onTestFinished, test } from 'vitest'
import { abilitiesOf, type Backend, createFleet, createWorker, PATIENCE } from '../../src/index.ts'
import { RecordedEvents } from '../support/events.ts'
import { describeStores } from '../support/stores.ts'
import { testBackend } from '../support/test-backend.ts'
import { createWorld } from '../support/world.ts'

describeStores('a worker of an app', (kind) => {
  async function open() {
    const world = await createWorld(kind)
    const ours = testBackend({ url: world.provider.url, name: 'ours' })
    const theirs = testBackend({ url: world.provider.url, name: 'theirs', canPause: false })
    const fleet = createFleet({ ...world.place, backends: [ours, theirs].map(abilitiesOf) })
    const start = async (...backends: Backend[]) => {
      const events = new RecordedEvents()
      const onEvent: NonNullable<Parameters<typeof createWorker>[0]['onEvent']> = ({ name, fields }) =>
        events.emit(name, fields)
      const worker = await createWorker({
        ...world.place,
        backends,
        dataFolder: world.dataFolder,
        graceMs: 5_000,
        onEvent,
      })
      onTestFinished(() => worker.stop())
      return { events, worker }
    }
    // The last to be registered is the first to be called.
    onTestFinished(async () => {
      await world.expectInvariants()
      await fleet.close()
      await world.end()
    })
    return { world, ours, theirs, fleet, start }
  }

  test('leaves what is of another backend for one that has it', async () => {
    const { ours, theirs, fleet, start } = await open()
    const first = await start(ours)
    const mine = await fleet.spawn({ backend: 'ours', wait: '30s' })
    expect(mine.sandbox).toMatchObject({ backend: 'ours', state: 'running' })
    const notMine = await fleet.spawn({ backend: 'theirs' })
    await first.events.until('job.snoozed')
    expect((await fleet.operation(notMine.operation.id)).operation).toMatchObject({ status: 'active', attempt: 0 })

    // Not both at once: which of them the queue gives it to first is chance.
    await first.worker.stop()
    const second = await start(theirs)
    const settled = await fleet.operation(notMine.operation.id, { wait: '30s' })
    expect(settled).toMatchObject({ operation: { status: 'succeeded', attempt: 1 }, sandbox: { state: 'running' } })
    const takenBy = (events: RecordedEvents) =>
      events.happened.filter(({ name }) => name === 'operation.taken').map(({ fields }) => fields.operationId)
    expect(takenBy(first.events)).toEqual([mine.operation.id])
    expect(takenBy(second.events)).toEqual([notMine.operation.id])
  })

  test('beside another that has other backends does what is its own, and the other the rest', async () => {
    const { ours, theirs, fleet, start } = await open()
    await Promise.all([start(ours), start(theirs)])
    const names = Array.from({ length: 20 }, (_, nth) => (nth % 2 === 0 ? 'ours' : 'theirs'))
    const made = await Promise.all(names.map((backend) => fleet.spawn({ backend, wait: '50s' })))
    expect(made.map(({ operation }) => operation.status)).toEqual(names.map(() => 'succeeded'))
    expect(made.map(({ sandbox }) => sandbox.backend)).toEqual(names)
  })

  test('is judged by what its backend can do, as the app was told', async () => {
    const { theirs, fleet, start } = await open()
    expect(abilitiesOf(theirs)).toEqual({ name: 'theirs', canPause: false, canSnapshot: true })
    await start(theirs)
    const { sandbox } = await fleet.spawn({ backend: 'theirs', wait: '30s' })
    expect((await fleet.pause(sandbox.id)).operation.error?.errorType).toBe('pause_unsupported')
    expect((await fleet.snapshot(sandbox.id, { wait: '30s' })).operation.status).toBe('succeeded')
  })
})

const databaseUrl = 'postgres://nobody@127.0.0.1:1/nothing'

test('a worker whose database is away or not migrated does not start', async () => {
  const backends = [testBackend({ url: 'http://127.0.0.1:1' })]
  await expect(createWorker({ databaseUrl, backends, patience: PATIENCE })).rejects.toMatchObject({
    code: 'database_unreachable',
  })
})

test.each([
  ['databaseUrl: must be a URL', { databaseUrl: '' }],
  ['databaseUrl: is missing', { databaseUrl: undefined }],
  ['databaseUrl: must be a URL', { databaseUrl: 'mysql://secret@host' }],
  ['redisUrl: must be a URL', { redisUrl: '' }],
  ['redisUrl: has a database that is not a number', { redisUrl: 'redis://:secret@h/1x' }],
  ['redisURL: there is no such field', { redisURL: 'redis://h' }],
  ['fleet: must be 1 to 40', { fleet: '' }],
  ['backends: is missing', { backends: undefined }],
  ['backends.0: must be a backend, or one of local, docker, ', { backends: ['locl'] }],
  ['backends.1: must be a backend', { backends: ['local', {}] }],
  ['backends.0: must be a backend', { backends: [{ ...testBackend({ url: 'http://h' }), name: '' }] }],
  ['backends: has two of the same name', { backends: ['local', 'local'] }],
  ['backends: has two of the same name', { backends: ['local', testBackend({ url: 'http://h', name: 'local' })] }],
  ['queues: must not be empty', { queues: [] }],
  ['queues.0: must be one of ', { queues: ['spwan'] }],
  ['queues: has the same queue twice', { queues: ['spawn', 'spawn'] }],
  ['graceMs: must be a number', { graceMs: '25s' }],
  ['graceMs: must be at least 0', { graceMs: -1 }],
  ['graceMs: must be at most 3600000', { graceMs: 3_600_001 }],
  ['dataFolder: must not be empty', { dataFolder: '' }],
  ['sweeper: must be one of act, ', { sweeper: 'watch' }],
  ['destroyMax: must be at least 1', { destroyMax: 0 }],
  ['ttl.idle: must be a duration', { ttl: { idle: '30m,hard=1s' } }],
  ['ttl.soft: there is no such field', { ttl: { soft: '1h' } }],
  ['keep.events: must be a duration', { keep: { events: 'never' } }],
  ['patience.callMs: is missing', { patience: {} }],
  ['patience.pollMs', { patience: { ...PATIENCE, pollMs: [100] } }],
  [
    'patience.callMs.look: must be a number',
    { patience: { ...PATIENCE, callMs: { ...PATIENCE.callMs, look: '10s' } } },
  ],
  ['housekeeping.looksApartMs: must be at least 0', { housekeeping: { looksApartMs: -5 } }],
  ['housekeeping.roundMs: must be a number', { housekeeping: { roundMs: '5m' } }],
  ['housekeeping.pruneBatch: must be at least 1', { housekeeping: { pruneBatch: 0 } }],
  ['housekeeping.compareBatch: must be at least 1', { housekeeping: { compareBatch: 0 } }],
  ['housekeeping.holdMs: must be at least', { housekeeping: { holdMs: 0 } }],
  ['housekeeping.looksKept: must be at least 2', { housekeeping: { looksKept: 1 } }],
  ['housekeeping.hurry: there is no such field', { housekeeping: { hurry: 1 } }],
  ['onEvent: must be a function', { onEvent: 'print' }],
])('a worker is refused before anything is opened: %s', async (message, options) => {
  const problem = await createWorker({ databaseUrl, backends: [], ...(options as object) }).catch((error) => error)
  expect(problem).toMatchObject({ code: 'request_invalid', message: expect.stringContaining(message) })
  expect(problem.message).not.toMatch(/secret|SANDMAN_|_URL|environment/)
})

test('all that is wrong is told at once', async () => {
  await expect(createWorker({ databaseUrl: '', redisUrl: '', backends: ['locl' as 'local'] })).rejects.toMatchObject({
    details: { problems: [{ field: 'databaseUrl' }, { field: 'redisUrl' }, { field: 'backends.0' }] },
  })
})

test('the limits that a fleet reports by are checked when it is created', () => {
  for (const ttl of [{ idle: Number.NaN }, { idle: -1 }, { idleMs: 1_000 }])
    expect(() => createFleet({ databaseUrl, ttl: ttl as never })).toThrow('ttl')
})
