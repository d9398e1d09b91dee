import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { Sandbox } from 'e2b'
import { describe, expect, onTestFinished, test } from 'vitest'
import { apiError, GATEWAY } from '../../support/e2b/faults.ts'
import { CALL, fails, HOUR_MS, IDLING, OWNER, setup, sh, wanted } from './setup.ts'

test('a sandbox is made with its labels, to sleep when its time is over, and not to be woken by who knocks', async () => {
  const { e2b, create } = await setup()
  const { ref } = await create({}, { ttlMs: 1_800_000 })
  const info = await Sandbox.getInfo(ref, e2b.connection)
  expect(info).toMatchObject({
    metadata: { sandman_fleet: 'test', sandman_sandbox: OWNER.sandboxId, sandman_life: OWNER.life },
    lifecycle: { onTimeout: 'pause', autoResume: false },
  })
  expect(info.endAt.getTime() - info.startedAt.getTime()).toBe(1_800_000)
})

test('of two that are made at once for the same life the oldest stays, and who made the other ends it', async () => {
  const { e2b, backend, open } = await setup()
  const making = e2b.holdAt('create')
  const made = [backend, await open()].map((each) => each.create(wanted({ agent: { command: IDLING } }), CALL))
  await making.entered(2)
  making.open()
  const refs = (await Promise.all(made)).map(({ ref }) => ref)
  expect(new Set(refs).size).toBe(1)
  expect(e2b.count('create')).toBe(2)
  expect(e2b.listed().map(({ sandboxID }) => sandboxID)).toEqual([refs[0]])
})

test('what a worker that was killed has left half made is found, and finished', async () => {
  const { e2b, backend, running } = await setup()
  const spec = { agent: { command: sh('echo once >>starts; sleep 1000'), sidecar: { command: IDLING } } }
  e2b.next('start', { kind: 'reset', performed: false })
  await expect(backend.create(wanted(spec), CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
  e2b.next('start', { kind: 'reset', performed: true })
  await expect(backend.create(wanted(spec), CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
  const { ref } = await backend.create(wanted(spec), CALL)
  expect(e2b.count('create')).toBe(1)
  const agent = { ...(await running(ref)), key: undefined }
  expect(await backend.agentStatus(agent, CALL)).toEqual({ is: 'running' })
  await backend.create(wanted(spec), CALL)
  await expect.poll(() => readFile(path.join(e2b.folderOf(ref), 'starts'), 'utf8')).toBe('once\n')
})

test('one that was made, and whose answer was lost, is found by its labels', async () => {
  const { e2b, backend } = await setup()
  e2b.next('create', { kind: 'cut', performed: true })
  await expect(backend.create(wanted(), CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
  const found = await backend.find(OWNER.sandboxId, CALL)
  expect(found).toEqual([{ ref: (await backend.create(wanted(), CALL)).ref, life: OWNER.life }])
  expect(e2b.count('create')).toBe(1)
})

test('one that is only said to be made is tried again, and not taken for one that has ended', async () => {
  const { e2b, backend } = await setup()
  e2b.next('create', { kind: 'lie' })
  await expect(backend.create(wanted(), CALL)).rejects.toMatchObject(fails('sandbox_unreachable', 'there is none'))
  await backend.create(wanted(), CALL)
})

test('a template is what it was asked for, or what E2B has; one that there is not is refused', async () => {
  const { e2b, create, backend } = await setup({ templates: ['mine'] })
  const mine = await create({ template: 'mine' })
  const usual = await create({}, { life: 'op_2' })
  expect((await Sandbox.getInfo(mine.ref, e2b.connection)).name).toBe('mine')
  expect((await Sandbox.getInfo(usual.ref, e2b.connection)).name).toBe('base')
  const missing = backend.create(wanted({ template: 'nobody/has-it' }, { life: 'op_3' }), CALL)
  await expect(missing).rejects.toMatchObject(fails('spec_invalid', 'nobody/has-it'))
  e2b.next('create', GATEWAY.plain404)
  const astray = backend.create(wanted({}, { life: 'op_4' }), CALL)
  await expect(astray).rejects.toMatchObject(fails('sandbox_unreachable'))
})

test.each([
  ['a limit of memory', { limits: { memoryBytesMax: 1 << 30 } }, 'limits.memoryBytesMax'],
  ['a limit of cores', { limits: { cpusMax: 2 } }, 'limits.cpusMax'],
  ['a root that cannot be written', { readOnlyRoot: true }, 'readOnlyRoot'],
])('%s is what a template decides, so it is refused', async (_what, spec, name) => {
  const { e2b, backend } = await setup()
  await expect(backend.create(wanted(spec), CALL)).rejects.toMatchObject(fails('spec_invalid', name))
  expect(e2b.requests).toEqual([])
})

test('what an agent has in its environment, commands and other agents have as well', async () => {
  const { backend, create, start } = await setup()
  const spec = { agent: { command: IDLING, env: { COLOUR: 'red' }, sidecar: { command: IDLING, env: { SIZE: '7' } } } }
  const target = await create(spec)
  expect(await backend.run(target, 'echo $COLOUR$SIZE', CALL)).toEqual({ exitCode: 0, output: 'red\n' })
  const agent = await start(target, sh('echo $COLOUR'))
  for await (const { bytes } of backend.attach(agent, undefined, CALL)) {
    expect(Buffer.from(bytes).toString()).toBe('red\n')
    break
  }
})

describe('a time-to-live that is more than the account may have', () => {
  test('is its maximum, for a new sandbox and for one that is resumed', async () => {
    const { backend, pausing, create } = await setup({ lifetimeMsMax: HOUR_MS })
    const endsIn = async (ref: string) => {
      const seen = await backend.look(ref, CALL)
      return seen.is === 'running' && seen.endsAt ? Math.round((seen.endsAt.getTime() - Date.now()) / 60_000) : seen
    }
    const target = await create({}, { ttlMs: 400 * 24 * HOUR_MS })
    expect(await endsIn(target.ref)).toBe(60)
    const { checkpointRef } = await pausing.suspend(target, { key: 'op_p' }, CALL)
    await pausing.resume({ ref: target.ref, checkpointRef }, { key: 'op_r', ttlMs: 5 * HOUR_MS }, CALL)
    expect(await endsIn(target.ref)).toBe(60)
  })

  test('is asked for with less, also when E2B does not say how much less', async () => {
    const { e2b, lease, create } = await setup()
    const target = await create()
    const refusal = apiError(400, 'Max instance length exceeded')
    e2b.next('timeout', refusal)
    await lease.set(target, 100 * HOUR_MS, CALL)
    expect(e2b.count('timeout')).toBe(2)
    e2b.always('timeout', refusal)
    await lease.set(target, 100 * HOUR_MS, CALL) // it has lived for as long as it may, and its end stays where it is
    expect(e2b.count('timeout')).toBe(5)
  })

  test('is told from what else may be wrong', async () => {
    const { e2b, lease, create } = await setup()
    const target = await create()
    e2b.next('timeout', apiError(400, 'Invalid something'))
    await expect(lease.set(target, HOUR_MS, CALL)).rejects.toMatchObject(fails('spec_invalid', 'Invalid something'))
    expect(e2b.count('timeout')).toBe(1)
  })
})

test('the lease of one that sleeps, changes or has ended is not set', async () => {
  const { e2b, backend, lease, pausing, create } = await setup()
  const target = await create()
  e2b.next('timeout', apiError(409, `Sandbox "${target.ref}" is being snapshotted`))
  await expect(lease.set(target, HOUR_MS, CALL)).rejects.toMatchObject(fails('sandbox_unreachable', 'snapshotted'))
  // It goes to sleep between the look and the call.
  const arriving = e2b.holdOnceAt('timeout')
  const late = lease.set(target, HOUR_MS, CALL)
  await arriving.entered(1)
  await pausing.suspend(target, { key: 'op_p' }, CALL)
  arriving.open()
  await expect(late).rejects.toMatchObject(fails('overtaken', 'it sleeps'))
  await backend.end({ ref: target.ref, incarnation: null }, CALL)
  await expect(lease.set(target, HOUR_MS, CALL)).rejects.toMatchObject(fails('sandbox_expired'))
})

describe('to end a sandbox', () => {
  test('that somebody else has ended since it was looked at is a success', async () => {
    const { e2b, backend, create } = await setup()
    const target = await create()
    const arriving = e2b.holdOnceAt('kill')
    const ending = backend.end(target, CALL)
    await arriving.entered(1)
    await Sandbox.kill(target.ref, e2b.connection)
    arriving.open()
    await ending
  })

  test('can be given up when it hangs, and the reason is told', async () => {
    const { e2b, backend, create } = await setup()
    const target = await create()
    e2b.next('kill', { kind: 'hang', performed: false })
    const giving = new AbortController()
    const ending = backend.end(target, { signal: giving.signal })
    await expect.poll(() => e2b.count('kill')).toBe(1)
    giving.abort(new Error('enough'))
    await expect(ending).rejects.toThrow('enough')
    expect(e2b.stateOf(target.ref)).toBe('running')
  })

  test('while it is being paused waits for that, and ends it by what it is then', async () => {
    const { e2b, backend, pausing, create } = await setup()
    const target = await create()
    const writing = e2b.holdWhile('pausing')
    const suspending = pausing.suspend(target, { key: 'op_p' }, CALL).catch((error: unknown) => error)
    await writing.entered(1)
    await expect(backend.end(target, CALL)).rejects.toMatchObject(fails('overtaken'))
    const ending = backend.end({ ref: target.ref, incarnation: null }, CALL)
    await expect.poll(() => e2b.count('kill')).toBe(1)
    writing.open()
    await ending
    await suspending
    expect(await backend.look(target.ref, CALL)).toEqual({ is: 'absent' })
  })
})

describe('a sandbox that somebody else has made', () => {
  test('can be adopted and used by its name, and is in no list', async () => {
    const { backend, pausing, createElsewhere, resume } = await setup()
    const target = await createElsewhere()
    await backend.adopt(target.ref, OWNER, CALL)
    expect(await backend.run(target, 'echo here', CALL)).toEqual({ exitCode: 0, output: 'here\n' })
    expect(await backend.agentStatus({ ...target, key: undefined }, CALL)).toEqual({ is: 'none' })
    const { checkpointRef } = await pausing.suspend(target, { key: 'op_p' }, CALL)
    const awake = await resume(target.ref, checkpointRef)
    expect(await backend.find(OWNER.sandboxId, CALL)).toEqual([])
    expect((await backend.lists.instances(undefined, CALL)).items).toEqual([])
    expect((await backend.lists.place(CALL))?.holds(target.ref)).toBe(true)
    await backend.end(awake, CALL)
    expect(await backend.look(target.ref, CALL)).toEqual({ is: 'absent' })
  })

  test('and that another fleet owns is neither touched nor taken for gone', async () => {
    const { e2b, backend, pausing, open } = await setup()
    const other = await open({ fleet: 'other' })
    const { ref } = await other.create(wanted(), CALL)
    const refused = fails('spec_invalid', 'fleet other')
    await expect(backend.adopt(ref, OWNER, CALL)).rejects.toMatchObject(refused)
    await expect(backend.look(ref, CALL)).rejects.toMatchObject(refused)
    await expect(backend.end({ ref, incarnation: null }, CALL)).rejects.toMatchObject(refused)
    await expect(pausing.suspend({ ref, incarnation: null }, { key: 'op' }, CALL)).rejects.toMatchObject(refused)
    await expect(backend.run({ ref, incarnation: 'x' }, 'true', CALL)).rejects.toMatchObject(refused)
    expect(e2b.stateOf(ref)).toBe('running')
    expect([e2b.count('kill'), e2b.count('pause'), e2b.count('start')]).toEqual([0, 0, 0])
  })
})

test('a name that can be no sandbox of E2B is absent, and not a fault', async () => {
  const { backend } = await setup()
  expect(await backend.look('sbx_x.op_y', CALL)).toEqual({ is: 'absent' })
  await backend.end({ ref: 'sbx_x.op_y', incarnation: null }, CALL)
})

test('an answer about another sandbox is no answer', async () => {
  const { e2b, backend, create } = await setup()
  const one = await create()
  const other = await create({}, { life: 'op_2' })
  const response = await fetch(`${e2b.url}/sandboxes/${other.ref}`, { headers: { 'X-API-KEY': e2b.apiKey } })
  e2b.next('get', { kind: 'status', status: 200, body: await response.json() })
  await expect(backend.look(one.ref, CALL)).rejects.toMatchObject(fails('sandbox_unreachable', other.ref))
})

test('one that is being copied is missing from the lists, and not from a look (incident L)', async () => {
  const { e2b, backend, snapshots, create } = await setup()
  const target = await create()
  const copying = e2b.holdWhile('snapshotting')
  const taking = snapshots.take(target, { key: 'op_s', name: undefined }, CALL)
  await copying.entered(1)
  expect((await backend.lists.instances(undefined, CALL)).items).toEqual([])
  expect(await backend.look(target.ref, CALL)).toMatchObject({ is: 'running', incarnation: target.incarnation })
  copying.open()
  await taking
  expect((await backend.lists.instances(undefined, CALL)).items).toEqual([{ ref: target.ref, ...OWNER }])
})

test('lists come in pages, and a list that shows what was not asked for is not believed', async () => {
  const { e2b, backend, open } = await setup({ fleet: 'a fleet & more=%' })
  const other = await open({ fleet: 'other' })
  const refs: string[] = []
  for (let at = 0; at < 3; at++) refs.push((await backend.create(wanted({}, { sandboxId: `sbx_${at}` }), CALL)).ref)
  await other.create(wanted({}, { sandboxId: 'sbx_0' }), CALL)
  const listed = (await backend.lists.instances(undefined, CALL)).items
  expect(listed.map(({ ref }) => ref)).toEqual(refs)
  const all = e2b.listed()
  e2b.always('list', { kind: 'status', status: 200, body: all, headers: { 'X-Next-Token': 'more' } })
  expect(await backend.lists.instances(undefined, CALL)).toMatchObject({ next: 'more' })
  expect((await backend.lists.instances(undefined, CALL)).items.map(({ ref }) => ref).sort()).toEqual(refs.toSorted())
  await expect(backend.find('sbx_1', CALL)).rejects.toMatchObject(fails('sandbox_unreachable', 'does not end'))
  e2b.heal()
  e2b.next('list', { kind: 'status', status: 200, body: all })
  expect(await backend.find('sbx_1', CALL)).toEqual([{ ref: refs[1], life: OWNER.life }])
})

test('a place is the same for whoever has the same key, and tells nothing of it', async () => {
  const { e2b, backend, open } = await setup()
  const nameOf = async (each: typeof backend) => (await each.lists.place(CALL))?.name
  expect(await nameOf(await open({ fleet: 'other' }))).toBe(await nameOf(backend))
  expect(await nameOf(await open({ apiKey: 'another' }))).not.toBe(await nameOf(backend))
  expect(await nameOf(backend)).not.toContain(e2b.apiKey)
})

test('a preview is where E2B says, or where the worker was told', async () => {
  const { backend, open, create } = await setup()
  const { ref } = await create()
  expect(await backend.previewUrl(ref, 3000, CALL)).toBe(`https://3000-${ref}.e2b.app`)
  const own = await open({ domain: 'e2b.example.com' })
  expect(await own.previewUrl(ref, 3000, CALL)).toBe(`https://3000-${ref}.e2b.example.com`)
  const told = await open({ previewUrl: (id, port) => `http://127.0.0.1/${id}/${port}` })
  expect(await told.previewUrl(ref, 3000, CALL)).toBe(`http://127.0.0.1/${ref}/3000`)
})

test('without a key it is not opened, and with what pretends to be E2B it is not content', async () => {
  const { e2b, open } = await setup()
  await expect(open({ apiKey: '' })).rejects.toMatchObject(fails('provider_unauthorized', 'E2B_API_KEY'))
  process.env.E2B_DEBUG = 'true'
  onTestFinished(() => {
    delete process.env.E2B_DEBUG
  })
  const { ref } = await (await open()).create(wanted(), CALL)
  expect(e2b.stateOf(ref)).toBe('running')
})
