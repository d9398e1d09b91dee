import { describe, expect, test } from 'vitest'
import { apiError, GATEWAY } from '../../support/agentuity/faults.ts'
import { ASKED, agentuity, CALL, fails, playAgentuity, setup, WAKING } from './setup.ts'

await playAgentuity()

const eventsOf = (ref: string) => agentuity.cloud.find(ref).events

test('a checkpoint is named after what its history has recorded, and each run after what it was woken from', async () => {
  const { backend, pausing, create, resume } = await setup()
  const first = await create()
  const { checkpointRef } = await pausing.suspend(first, ASKED, CALL)
  expect(checkpointRef).toMatch(new RegExp(`^${first.ref}@ckpt_[0-9a-f]+$`))
  expect(await backend.look(first.ref, CALL)).toEqual({ is: 'suspended', checkpointRef })
  expect(await pausing.verify(checkpointRef as string, CALL)).toEqual({ is: 'ready', sizeBytes: 4096 })
  const second = await resume(first.ref, checkpointRef)
  expect(second.incarnation).toContain(checkpointRef?.split('@')[1])
  expect(await pausing.verify(checkpointRef as string, CALL)).toMatchObject({ is: 'missing' })
  const again = await pausing.suspend(second, ASKED, CALL)
  expect(again.checkpointRef).not.toBe(checkpointRef)
})

test('one that Agentuity has evacuated is suspended, with its checkpoint, and runs as another incarnation when it is woken', async () => {
  const { backend, pausing, create, resume } = await setup()
  const target = await create()
  await agentuity.evacuate(target.ref)
  const seen = await backend.look(target.ref, CALL)
  expect(seen).toEqual({ is: 'suspended', checkpointRef: expect.stringContaining('@ckpt_') })
  expect(await pausing.suspend(target, ASKED, CALL)).toEqual({
    checkpointRef: seen.is === 'suspended' && seen.checkpointRef,
  })
  expect(agentuity.count('pause', target.ref)).toBe(0)
  const awake = await resume(target.ref)
  expect(awake.incarnation).not.toBe(target.incarnation)
  await expect(backend.run(target, 'true', CALL)).rejects.toMatchObject(fails('overtaken'))
})

describe('a pause is believed by what is seen', () => {
  test('one that does not name its checkpoint is done when its history has it', async () => {
    const { pausing, create } = await setup()
    const target = await create()
    agentuity.next('pause', { kind: 'pause', fate: 'does not tell' })
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    expect(await pausing.verify(checkpointRef as string, CALL)).toMatchObject({ is: 'ready' })
  })

  test('one that has recorded nothing names no checkpoint, and what it left cannot be woken, which is said in time', async () => {
    const { backend, pausing, create, later } = await setup()
    const target = await create()
    agentuity.next('pause', { kind: 'pause', fate: 'records nothing' })
    expect(await pausing.suspend(target, ASKED, CALL)).toEqual({ checkpointRef: undefined })
    expect(await backend.look(target.ref, CALL)).toEqual({ is: 'suspended', checkpointRef: undefined })
    const seen = await (await later()).look(target.ref, CALL)
    expect(seen).toMatchObject({
      is: 'suspended',
      checkpointRef: undefined,
      broken: expect.stringContaining('recorded'),
    })
  })

  test('one that names a checkpoint which is recorded nowhere is pending for a while, and then missing', async () => {
    const { pausing, create, later } = await setup()
    const target = await create()
    agentuity.next('pause', { kind: 'pause', fate: 'names what is not there' })
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    expect(await pausing.verify(checkpointRef as string, CALL)).toEqual({ is: 'pending' })
    const condition = await (await later()).verify(checkpointRef as string, CALL)
    expect(condition).toMatchObject({ is: 'missing', why: expect.stringContaining('its history has no ckpt_') })
  })

  test('a second one that records nothing does not rest on what the first has recorded (incident A)', async () => {
    const { backend, pausing, create, resume, later } = await setup()
    const first = await create()
    const { checkpointRef: old } = await pausing.suspend(first, ASKED, CALL)
    const second = await resume(first.ref, old)
    await agentuity.evacuate(first.ref, 'records nothing')
    expect(eventsOf(first.ref).filter(({ type }) => type === 'checkpoint-received')).toHaveLength(2)
    expect(await backend.look(first.ref, CALL)).toEqual({ is: 'suspended', checkpointRef: undefined })
    expect(await pausing.suspend(second, ASKED, CALL)).toEqual({ checkpointRef: undefined })
    const late = await later()
    expect(await late.verify(old as string, CALL)).toMatchObject({ is: 'missing' })
    const waking = late.resume({ ref: first.ref, checkpointRef: old }, WAKING, CALL)
    await expect(waking).rejects.toMatchObject(fails('checkpoint_missing', `${old}: .*no checkpoint data`))
    expect(agentuity.statusOf(first.ref)).toBe('suspended')
  })

  test('also where nothing is told of its waking, nor of the second pause', async () => {
    const { backend, pausing, create, resume } = await setup()
    const first = await create()
    const { checkpointRef: old } = await pausing.suspend(first, ASKED, CALL)
    const second = await resume(first.ref, old)
    const box = agentuity.cloud.find(first.ref)
    box.events = box.events.filter(({ type }) => type !== 'lifecycle:resumed')
    box.status = 'suspended'
    expect(await backend.look(first.ref, CALL)).toEqual({ is: 'suspended', checkpointRef: old })
    const precedes = (incarnation: string) => pausing.precedes?.(old as string, incarnation)
    expect([precedes(second.incarnation), precedes(first.incarnation)]).toEqual([true, false])
    await expect(pausing.suspend(second, ASKED, CALL)).rejects.toMatchObject(
      fails('checkpoint_missing', 'lost the run'),
    )
  })

  test('one whose history lags is pending until it is told', async () => {
    const { pausing, create, resume } = await setup()
    const first = await create()
    const { checkpointRef: old } = await pausing.suspend(first, ASKED, CALL)
    const second = await resume(first.ref, old)
    agentuity.cloud.hidesEvents = true
    const { checkpointRef } = await pausing.suspend(second, ASKED, CALL)
    expect(await pausing.verify(checkpointRef as string, CALL)).toEqual({ is: 'pending' })
    agentuity.cloud.showEvents()
    expect(await pausing.verify(checkpointRef as string, CALL)).toMatchObject({ is: 'ready' })
  })

  test('what is only said to be done, and is not, is not claimed', async () => {
    const { backend, pausing, create } = await setup({ lagMs: 100 })
    const target = await create()
    const body = { success: true, sandboxId: target.ref, status: 'suspended', checkpointId: 'ckpt_never' }
    agentuity.next('pause', { kind: 'lie', body })
    await expect(pausing.suspend(target, ASKED, CALL)).rejects.toMatchObject(
      fails('sandbox_unreachable', 'shows it as'),
    )
    expect(await backend.look(target.ref, CALL)).toMatchObject({ is: 'running', incarnation: target.incarnation })
  })

  test.each([
    ['in conflict with something else', apiError(409, 'Cannot pause sandbox: it is running')],
    ['failed', GATEWAY.internalError],
    ['met by a gateway', GATEWAY.html502],
  ])('%s, it runs on', async (_what, fault) => {
    const { pausing, create, running } = await setup({ lagMs: 100 })
    const target = await create()
    agentuity.next('pause', fault)
    await expect(pausing.suspend(target, ASKED, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
    expect(await running(target.ref)).toEqual(target)
  })

  test('one that breaks it leaves something that runs, in which nothing works, and which ends by itself', async () => {
    const { backend, pausing, create, resume } = await setup()
    const target = await create()
    agentuity.next('pause', { kind: 'pause', fate: 'breaks it' })
    await expect(pausing.suspend(target, ASKED, CALL)).rejects.toMatchObject(fails('sandbox_unreachable', '500'))
    expect(await backend.look(target.ref, CALL)).toMatchObject({ is: 'running' })
    await expect(backend.run(target, 'true', CALL)).rejects.toMatchObject(fails('sandbox_unreachable', '500'))
    await agentuity.terminate(target.ref)
    expect(await backend.look(target.ref, CALL)).toMatchObject({ is: 'lost', why: expect.stringContaining('137') })
    await expect(pausing.suspend(target, ASKED, CALL)).rejects.toMatchObject(fails('sandbox_expired', '137'))
    await expect(resume(target.ref)).rejects.toMatchObject(fails('sandbox_expired'))
  })
})

describe('the list of checkpoints', () => {
  const listing = (...ids: string[]) => ({
    kind: 'lie' as const,
    body: { success: true, data: { checkpoints: ids.map((id) => ({ id, name: id, createdAt: '', parent: '' })) } },
  })

  test('that hangs, with no bytes, is given up: unreachable, and not missing (incident A)', async () => {
    const { pausing, create, open } = await setup()
    const target = await create()
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    const { pausing: hasty } = await open({ patience: { checkpointsMs: 150, settlingMs: 0 } })
    if (hasty === 'none') return expect.unreachable()
    agentuity.next('listCheckpoints', { kind: 'hang', performed: false })
    await expect(hasty.verify(checkpointRef as string, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
    expect(await pausing.verify(checkpointRef as string, CALL)).toMatchObject({ is: 'ready' })
  })

  test('that answers, counts more than the history', async () => {
    const { pausing, create, later } = await setup()
    const target = await create()
    const { checkpointRef = '' } = await pausing.suspend(target, ASKED, CALL)
    const id = checkpointRef.split('@')[1] as string
    agentuity.next('listCheckpoints', listing('ckpt_other', id), listing('ckpt_other'), listing())
    expect(await pausing.verify(checkpointRef, CALL)).toMatchObject({ is: 'ready' })
    expect(await pausing.verify(checkpointRef, CALL)).toEqual({ is: 'pending' })
    const condition = await (await later()).verify(checkpointRef, CALL)
    expect(condition).toMatchObject({ is: 'missing', why: expect.stringContaining('list of its checkpoints') })
  })
})

describe('a resume that is refused (409)', () => {
  test('while the checkpoint is still being written, is tried again, and wakes it', async () => {
    const { pausing, create, running, open } = await setup()
    const target = await create()
    const writing = agentuity.holdWhile('writing')
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    expect(await pausing.verify(checkpointRef as string, CALL)).toEqual({ is: 'pending' })
    const { pausing: patient } = await open({ patience: { refusedMs: Array.from({ length: 200 }, () => 10) } })
    const waking = patient !== 'none' && patient.resume({ ref: target.ref, checkpointRef }, WAKING, CALL)
    await expect.poll(() => agentuity.count('resume', target.ref)).toBeGreaterThan(1)
    writing.open()
    await waking
    expect((await running(target.ref)).incarnation).not.toBe(target.incarnation)
  })

  test('is tried a few times, and is unreachable as long as it may still be written', async () => {
    const { pausing, create } = await setup()
    const target = await create()
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    agentuity.loseCheckpoint(target.ref)
    const waking = pausing.resume({ ref: target.ref, checkpointRef }, WAKING, CALL)
    await expect(waking).rejects.toMatchObject(fails('sandbox_unreachable', 'no checkpoint data'))
    expect(agentuity.count('resume', target.ref)).toBe(3)
    expect(agentuity.statusOf(target.ref)).toBe('suspended')
  })

  test('is tried a few times also long after, and then its checkpoint is missing, by its name', async () => {
    const { pausing, create, later } = await setup()
    const target = await create()
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    agentuity.loseCheckpoint(target.ref)
    const waking = (await later()).resume({ ref: target.ref, checkpointRef }, WAKING, CALL)
    await expect(waking).rejects.toMatchObject(fails('checkpoint_missing', checkpointRef))
    expect(agentuity.count('resume', target.ref)).toBe(3)
  })

  test('in other words is never taken for a checkpoint that is missing', async () => {
    const { pausing, create, later } = await setup()
    const target = await create()
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    agentuity.always('resume', apiError(409, 'Cannot resume sandbox: node is draining'))
    const waking = (await later()).resume({ ref: target.ref, checkpointRef }, WAKING, CALL)
    await expect(waking).rejects.toMatchObject(fails('sandbox_unreachable', 'draining'))
  })

  test('of a sleep that nobody has told of is not judged', async () => {
    const { pausing, create, later } = await setup()
    const target = await create()
    agentuity.cloud.hidesEvents = true
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    agentuity.loseCheckpoint(target.ref)
    const waking = (await later()).resume({ ref: target.ref, checkpointRef }, WAKING, CALL)
    await expect(waking).rejects.toMatchObject(fails('sandbox_unreachable'))
  })
})

describe('a resume that is answered', () => {
  test('and has lost all files is not believed, also when its answer was lost', async () => {
    const { pausing, create } = await setup()
    const target = await create()
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    agentuity.next('resume', { kind: 'resume', fate: 'wipes it' })
    for (const _time of [1, 2]) {
      const waking = pausing.resume({ ref: target.ref, checkpointRef }, WAKING, CALL)
      await expect(waking).rejects.toMatchObject(fails('checkpoint_corrupt', checkpointRef))
    }
  })

  test('and leaves it hollow is unreachable, although it is shown to run', async () => {
    const { backend, pausing, create } = await setup()
    const target = await create()
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    agentuity.next('resume', { kind: 'resume', fate: 'leaves it hollow' })
    const waking = pausing.resume({ ref: target.ref, checkpointRef }, WAKING, CALL)
    await expect(waking).rejects.toMatchObject(fails('sandbox_unreachable', '500'))
    expect(await backend.look(target.ref, CALL)).toMatchObject({ is: 'running' })
  })

  test('is waited for, and not for ever', async () => {
    const { pausing, create } = await setup({ lagMs: 200 })
    const target = await create()
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    agentuity.pretend(target.ref, { status: 'suspended' })
    const waking = pausing.resume({ ref: target.ref, checkpointRef }, WAKING, CALL)
    await expect(waking).rejects.toMatchObject(fails('sandbox_unreachable', 'shows it as suspended'))
  })

  test('although it was woken by somebody else meanwhile', async () => {
    const { pausing, create } = await setup()
    const target = await create()
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    const arriving = agentuity.holdOnceAt('resume')
    const late = pausing.resume({ ref: target.ref, checkpointRef }, WAKING, CALL)
    await arriving.entered(1)
    await agentuity.cloud.resume(agentuity.cloud.find(target.ref))
    arriving.open()
    await late
  })

  test('or not, because it went meanwhile', async () => {
    const { pausing, create } = await setup()
    const target = await create()
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    const arriving = agentuity.holdOnceAt('resume')
    const late = pausing.resume({ ref: target.ref, checkpointRef }, WAKING, CALL)
    await arriving.entered(1)
    await agentuity.cloud.destroy(agentuity.cloud.find(target.ref))
    arriving.open()
    await expect(late).rejects.toMatchObject(fails('sandbox_expired'))
  })
})

describe('an incarnation', () => {
  test('is not changed by a pause that has failed, nor by what else is told', async () => {
    const { create, running } = await setup()
    const target = await create()
    const box = agentuity.cloud.find(target.ref)
    for (const type of ['pause-failed', 'checkpoint-failed', 'resume-requested', 'execute', 'lifecycle:started'])
      agentuity.cloud.tell(box, type)
    expect(await running(target.ref)).toEqual(target)
  })

  test('is not guessed where so much was told that the last sleep is not among it', async () => {
    const { backend, create } = await setup()
    const target = await create()
    const box = agentuity.cloud.find(target.ref)
    for (let nth = 0; nth < 100; nth++) agentuity.cloud.tell(box, 'execute')
    expect(await backend.look(target.ref, CALL)).toEqual({ is: 'changing', why: expect.stringContaining('which run') })
    await expect(backend.end(target, CALL)).rejects.toMatchObject(fails('overtaken', 'which run'))
    await backend.end({ ...target, incarnation: null }, CALL)
    expect(await backend.look(target.ref, CALL)).toEqual({ is: 'absent' })
  })

  test('is not that of the beginning where fewer events are given than were asked for, and the first is not among them', async () => {
    const { backend, pausing, create, resume } = await setup()
    const first = await create()
    const { checkpointRef } = await pausing.suspend(first, ASKED, CALL)
    await resume(first.ref, checkpointRef)
    for (let nth = 0; nth < 50; nth++) agentuity.cloud.tell(agentuity.cloud.find(first.ref), 'execute')
    eventsOf(first.ref).splice(0, eventsOf(first.ref).length - 50)
    await expect(backend.end(first, CALL)).rejects.toMatchObject(fails('overtaken', 'which run'))
    expect(agentuity.statusOf(first.ref)).toBe('idle')
  })

  test('is another one when a job itself has woken it, which is noticed', async () => {
    const { backend, create } = await setup()
    const target = await create()
    agentuity.cloud.jobsWake = true
    const arriving = agentuity.holdOnceAt('createJob')
    const running = backend.run(target, 'true', CALL)
    await arriving.entered(1)
    await agentuity.evacuate(target.ref)
    arriving.open()
    await expect(running).rejects.toMatchObject(fails('overtaken'))
    expect(agentuity.statusOf(target.ref)).toBe('idle')
  })
})

test('what it sleeps on is still shown after a resume that came to nothing', async () => {
  const { backend, pausing, create } = await setup()
  const target = await create()
  const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
  for (const type of ['resume-requested', 'resume-failed']) agentuity.cloud.tell(agentuity.cloud.find(target.ref), type)
  expect(await backend.look(target.ref, CALL)).toEqual({ is: 'suspended', checkpointRef })
})

test('to discard a pause touches nothing, because it goes with its sandbox', async () => {
  const { pausing, create } = await setup()
  const target = await create()
  const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
  const before = agentuity.requests.length
  await pausing.discard(checkpointRef as string, CALL)
  expect(agentuity.requests.length).toBe(before)
})
