import { describe, expect, test } from 'vitest'
import { apiError, GATEWAY } from '../../support/agentuity/faults.ts'
import { agentuity, CALL, fails, playAgentuity, setup } from './setup.ts'

await playAgentuity()

const gone = apiError(404, 'Sandbox not found', 'SANDBOX_NOT_FOUND')

test('it is made with its labels, in its name too, and is asked to be kept for as long as it sleeps', async () => {
  const { fleet, owner, create } = await setup()
  const { ref } = await create({
    template: 'python:3.14',
    agent: { command: ['sleep', '1000'], env: { GREETING: 'hi' } },
    wake: { previewPort: 8080 },
    limits: { memoryBytesMax: 512 << 20, cpusMax: 0.5 },
  })
  const { settings } = agentuity.cloud.find(ref)
  expect(settings).toEqual({
    runtime: 'python:3.14',
    name: expect.stringMatching(new RegExp(`^sandman-[0-9a-f]{12}-${owner.sandboxId}$`)),
    description: owner.life,
    metadata: { sandman_fleet: fleet, sandman_sandbox: owner.sandboxId, sandman_life: owner.life },
    env: { GREETING: 'hi' },
    resources: { memory: '512Mi', cpu: '500m' },
    network: { enabled: true, port: 8080 },
    stream: { timestamps: false },
    timeout: { idle: '3600s', paused: '0s' },
  })
})

test.each([
  ['a root that is only read', { readOnlyRoot: true }, undefined, 'readOnlyRoot'],
  ['a port that is not reached', { wake: { previewPort: 80 } }, undefined, 'port 80'],
  ['a pause of another one', {}, 'sbx_1@ckpt_1', 'only a snapshot'],
  ['a runtime that there is not', { template: 'cobol:1' }, undefined, 'cobol:1'],
])('%s is refused, and nothing is made', async (_what, spec, checkpointRef, said) => {
  const { backend, wanted, owner } = await setup()
  const making = backend.create(wanted(spec, { checkpointRef }), CALL)
  await expect(making).rejects.toMatchObject(fails('spec_invalid', said))
  expect(await backend.find(owner.sandboxId, CALL)).toEqual([])
})

test('a template may be a snapshot, which has its own runtime', async () => {
  const { backend, snapshots, create } = await setup()
  const origin = await create()
  await backend.run(origin, 'echo kept >kept', CALL)
  const { checkpointRef } = await snapshots.take(origin, { key: 'op_s', name: undefined }, CALL)
  const copy = await create({ template: `snapshot:${checkpointRef}` }, { life: 'op_2' })
  expect(await backend.run(copy, 'cat kept', CALL)).toMatchObject({ output: 'kept\n' })
})

describe('made once', () => {
  test('although its answer was lost: it is found by its name', async () => {
    const { backend, wanted, owner } = await setup()
    agentuity.next('create', { kind: 'reset', performed: true })
    const before = agentuity.count('create')
    await expect(backend.create(wanted(), CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
    const [found] = await backend.find(owner.sandboxId, CALL)
    expect(await backend.create(wanted(), CALL)).toEqual({ ref: found?.ref })
    expect(agentuity.count('create') - before).toBe(1)
  })

  test('although it was not in the list when it was looked for: what is too much is ended when it is seen', async () => {
    const { backend, wanted, owner } = await setup()
    agentuity.cloud.hidesNew = true
    agentuity.next('create', { kind: 'reset', performed: true })
    await expect(backend.create(wanted(), CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
    await backend.create(wanted(), CALL)
    agentuity.cloud.becomeHonest()
    expect(await backend.find(owner.sandboxId, CALL)).toHaveLength(2)
    const { ref } = await backend.create(wanted(), CALL)
    expect(await backend.find(owner.sandboxId, CALL)).toEqual([{ ref, life: owner.life }])
  })

  test('and anew when it has ended before it was used', async () => {
    const { backend, wanted, owner } = await setup()
    const first = await backend.create(wanted(), CALL)
    await agentuity.terminate(first.ref, 1)
    const { ref } = await backend.create(wanted(), CALL)
    expect(ref).not.toBe(first.ref)
    expect(await backend.find(owner.sandboxId, CALL)).toEqual([{ ref, life: owner.life }])
  })

  test('also when what has ended is still listed: it is nothing that a new one would be too much beside', async () => {
    const { backend, wanted } = await setup({ lagMs: 200 })
    const first = await backend.create(wanted(), CALL)
    await agentuity.terminate(first.ref, 1)
    agentuity.cloud.showsDestroyed = true
    const { ref } = await backend.create(wanted(), CALL)
    expect(ref).not.toBe(first.ref)
    expect(await backend.look(ref, CALL)).toMatchObject({ is: 'running' })
  })
})

describe('one that is new', () => {
  test('may not be known yet: that is waited for, and not taken for its end', async () => {
    const { backend, wanted } = await setup()
    agentuity.next('events', gone, gone)
    agentuity.next('get', gone, gone, gone, gone) // each of which is asked for again
    const { ref } = await backend.create(wanted(), CALL)
    expect(await backend.look(ref, CALL)).toMatchObject({ is: 'running' })
  })

  test('may not be known yet when it turns out to be too much, either', async () => {
    const { backend, wanted, owner } = await setup()
    agentuity.cloud.hidesNew = true
    const { ref } = await backend.create(wanted(), CALL)
    const making = agentuity.holdOnceAt('create')
    const made = backend.create(wanted(), CALL)
    await making.entered(1)
    agentuity.cloud.becomeHonest()
    agentuity.next('get', gone, gone)
    making.open()
    expect(await made).toEqual({ ref })
    expect(await backend.find(owner.sandboxId, CALL)).toEqual([{ ref, life: owner.life }])
  })

  test('that stays unknown is unreachable', async () => {
    const { backend, wanted } = await setup({ lagMs: 200 })
    agentuity.always('events', gone)
    agentuity.always('get', gone)
    await expect(backend.create(wanted(), CALL)).rejects.toMatchObject(
      fails('sandbox_unreachable', 'that there is none'),
    )
  })

  test('is changing while it is being started, and can be ended', async () => {
    const { backend, wanted, owner } = await setup()
    const starting = agentuity.holdWhile('creating')
    const giving = new AbortController()
    const making = backend.create(wanted(), { signal: giving.signal })
    await starting.entered(1)
    const ref = await expect
      .poll(async () => (await backend.find(owner.sandboxId, CALL))[0]?.ref)
      .toBeDefined()
      .then(async () => (await backend.find(owner.sandboxId, CALL))[0]?.ref as string)
    expect(await backend.look(ref, CALL)).toEqual({ is: 'changing', why: expect.stringContaining('creating') })
    giving.abort(new Error('enough'))
    await expect(making).rejects.toThrow('enough')
    await backend.end({ ref, incarnation: null }, CALL)
    starting.open()
    expect(await backend.look(ref, CALL)).toEqual({ is: 'absent' })
  })

  test('may belong to no organization yet', async () => {
    const { backend, create } = await setup()
    const { ref } = await create()
    agentuity.pretend(ref, { org: null, metadata: undefined })
    expect(await backend.look(ref, CALL)).toMatchObject({ is: 'running' })
  })

  test('that belongs to no organization yet makes a list unreadable, which is no empty list', async () => {
    const { backend, create, owner } = await setup()
    const { ref } = await create()
    const listed = { sandboxId: ref, status: 'idle', createdAt: 'now', executions: 0, org: null }
    agentuity.next('list', { kind: 'lie', body: { success: true, data: { sandboxes: [listed], total: 1 } } })
    await expect(backend.find(owner.sandboxId, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
  })

  test('and that Agentuity would end while it sleeps, is not wanted', async () => {
    const { backend, wanted, owner } = await setup()
    agentuity.cloud.pausedTimeout = '24h0m0s'
    await expect(backend.create(wanted(), CALL)).rejects.toMatchObject(fails('quota_exceeded', '24h0m0s'))
    expect(await backend.find(owner.sandboxId, CALL)).toEqual([])
  })
})

describe('the end of it', () => {
  test('may be answered with nothing, which is not a failure', async () => {
    const { backend, create } = await setup()
    const target = await create()
    agentuity.next('destroy', { kind: 'no content' })
    await backend.end(target, CALL)
    expect(agentuity.statusOf(target.ref)).toBeUndefined()
  })

  test('may have come meanwhile', async () => {
    const { backend, create } = await setup()
    const target = await create()
    const arriving = agentuity.holdOnceAt('destroy')
    const ending = backend.end(target, CALL)
    await arriving.entered(1)
    await agentuity.cloud.destroy(agentuity.cloud.find(target.ref))
    arriving.open()
    await ending
  })

  test.each([
    ['a gateway', GATEWAY.plain404],
    ['nobody', { kind: 'status', status: 204 } as const],
  ])('is not what %s says', async (_who, fault) => {
    const { backend, create, running } = await setup()
    const target = await create()
    agentuity.next('destroy', fault)
    await expect(backend.end(target, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
    expect(await running(target.ref)).toEqual(target)
  })

  test('whose answer was lost has come', async () => {
    const { backend, create } = await setup()
    const target = await create()
    agentuity.next('destroy', { kind: 'reset', performed: true })
    await backend.end(target, CALL)
    expect(await backend.look(target.ref, CALL)).toEqual({ is: 'absent' })
  })

  test('is what it is when Agentuity still shows it as terminated', async () => {
    const { backend, create } = await setup()
    const target = await create()
    agentuity.cloud.showsDestroyed = true
    await backend.end(target, CALL)
    expect(agentuity.statusOf(target.ref)).toBe('terminated')
    expect(await backend.look(target.ref, CALL)).toEqual({ is: 'absent' })
  })

  test('by itself leaves remains, which are told, and can be ended', async () => {
    const { backend, create } = await setup()
    const target = await create()
    await agentuity.terminate(target.ref)
    expect(await backend.look(target.ref, CALL)).toEqual({ is: 'lost', why: expect.stringContaining('with 137') })
    const { items } = await backend.lists.instances(undefined, CALL)
    expect(items).toContainEqual(expect.objectContaining({ ref: target.ref, isLost: true }))
    await backend.end({ ref: target.ref, incarnation: null }, CALL)
    expect(await backend.look(target.ref, CALL)).toEqual({ is: 'absent' })
  })
})

test.each([
  ['its labels', {}],
  ['its name, where nothing else is known yet', { metadata: undefined }],
])('what belongs to another fleet by %s is not touched', async (_how, shown) => {
  const { create } = await setup()
  const target = await create()
  const { backend: stranger } = await setup()
  agentuity.pretend(target.ref, shown)
  await expect(stranger.end(target, CALL)).rejects.toMatchObject(fails('spec_invalid', 'belongs to'))
  await expect(stranger.run(target, 'true', CALL)).rejects.toMatchObject(fails('spec_invalid'))
  expect(agentuity.statusOf(target.ref)).toBe('idle')
})

test('one that somebody else has made is adopted by its id, and is in no list', async () => {
  const { backend, pausing, resume, running, owner } = await setup()
  const { id } = await agentuity.cloud.create({ name: 'mine' })
  await backend.adopt(id, owner, CALL)
  const target = await running(id)
  expect(await backend.run(target, 'echo hi', CALL)).toEqual({ exitCode: 0, output: 'hi\n' })
  expect(await backend.find(owner.sandboxId, CALL)).toEqual([])
  const { checkpointRef } = await pausing.suspend(target, { key: 'op_p' }, CALL)
  await resume(id, checkpointRef) // nobody has left a witness in it
})

test('a port is reached at the one address that it has', async () => {
  const { backend, create } = await setup()
  const { ref } = await create({ wake: { previewPort: 8080 } })
  expect(await backend.previewUrl(ref, 8080, CALL)).toMatch(/^http/)
  expect(await backend.previewUrl(ref, 8081, CALL)).toBeUndefined()
})

describe('a snapshot', () => {
  const asked = { key: 'op_s', name: undefined }

  test('may be deleted with no answer, and not while it is in use', async () => {
    const { snapshots, create } = await setup()
    const { checkpointRef } = await snapshots.take(await create(), asked, CALL)
    agentuity.next('deleteSnapshot', apiError(409, 'Snapshot is in use'), { kind: 'no content' })
    await expect(snapshots.discard(checkpointRef, CALL)).rejects.toMatchObject(fails('in_use'))
    expect(await snapshots.verify(checkpointRef, CALL)).toEqual({ is: 'ready', sizeBytes: 4096 })
    await snapshots.discard(checkpointRef, CALL)
    expect(await snapshots.verify(checkpointRef, CALL)).toMatchObject({ is: 'missing' })
  })

  test('whose answer was lost is found by its name', async () => {
    const { backend, snapshots, create } = await setup()
    const target = await create()
    agentuity.next('snapshot', { kind: 'reset', performed: true })
    await expect(snapshots.take(target, asked, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
    const { checkpointRef } = await snapshots.take(target, asked, CALL)
    if (backend.lists.checkpoints === 'none') return expect.unreachable()
    const { items } = await backend.lists.checkpoints(undefined, CALL)
    expect(items.map(({ ref }) => ref)).toEqual([checkpointRef])
  })

  test('that was made twice at once is one: whoever did not make the oldest deletes its own', async () => {
    const { snapshots, create } = await setup()
    const target = await create()
    const taking = agentuity.holdWhile('snapshotting')
    const both = [snapshots.take(target, asked, CALL), snapshots.take(target, asked, CALL)]
    await taking.entered(2)
    taking.open()
    const [one, other] = await Promise.all(both)
    expect(one).toEqual(other)
    expect(agentuity.count('deleteSnapshot')).toBeGreaterThan(0)
  })

  test('is missing only when Agentuity says so', async () => {
    const { snapshots, create } = await setup()
    const { checkpointRef } = await snapshots.take(await create(), asked, CALL)
    agentuity.next('getSnapshot', GATEWAY.plain404)
    await expect(snapshots.verify(checkpointRef, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
  })
})

test('a list of more than one page is read to its end, and one that does not end is not', async () => {
  const { backend, owner } = await setup()
  const shown = (count: number, total: number) => ({
    kind: 'lie' as const,
    body: {
      success: true,
      data: {
        sandboxes: Array.from({ length: count }, (_, nth) => ({
          ...{ sandboxId: `sbx_${nth}`, status: 'idle', createdAt: '2026', executions: 0 },
          org: { id: 'o', name: 'o' },
        })),
        total,
      },
    },
  })
  agentuity.next('list', shown(100, 150), shown(50, 150))
  const first = await backend.lists.instances(undefined, CALL)
  expect(first.next).toBe('100')
  expect((await backend.lists.instances(first.next, CALL)).next).toBeUndefined()
  agentuity.always('list', shown(1, 1_000_000))
  await expect(backend.find(owner.sandboxId, CALL)).rejects.toMatchObject(fails('sandbox_unreachable', 'does not end'))
})
