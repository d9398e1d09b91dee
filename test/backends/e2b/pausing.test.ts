import { Sandbox } from 'e2b'
import { describe, expect, test } from 'vitest'
import { apiError, GATEWAY, nodeBusy } from '../../support/e2b/faults.ts'
import { CALL, fails, HOUR_MS, setup } from './setup.ts'

const ASKED = { key: 'op_p' }
const WAKING = { key: 'op_r', ttlMs: HOUR_MS }

test('a checkpoint is named after the run that was paused, and each run has its own', async () => {
  const { backend, pausing, create, resume } = await setup()
  const first = await create()
  const { checkpointRef } = await pausing.suspend(first, ASKED, CALL)
  expect(checkpointRef).toBe(`${first.ref}@${first.incarnation}`)
  expect(await pausing.verify(checkpointRef as string, CALL)).toEqual({ is: 'ready' })
  const second = await resume(first.ref, checkpointRef)
  expect(await pausing.verify(checkpointRef as string, CALL)).toMatchObject({ is: 'missing' })
  expect(await pausing.verify(`${second.ref}@${second.incarnation}`, CALL)).toEqual({ is: 'pending' })
  expect(await backend.look(first.ref, CALL)).toMatchObject({ is: 'running', incarnation: second.incarnation })
})

test('one that its time has put to sleep is suspended, on the run that it had', async () => {
  const { e2b, backend, pausing, create, resume } = await setup()
  const target = await create()
  await backend.run(target, 'echo kept >kept', CALL)
  await e2b.advance(2 * HOUR_MS)
  const checkpointRef = `${target.ref}@${target.incarnation}`
  expect(await backend.look(target.ref, CALL)).toEqual({ is: 'suspended', checkpointRef })
  expect(await pausing.suspend(target, ASKED, CALL)).toEqual({ checkpointRef })
  const awake = await resume(target.ref, checkpointRef)
  expect(await backend.run(awake, 'cat kept', CALL)).toMatchObject({ output: 'kept\n' })
})

test('one that is paused already is a success, and not a failure (incident H)', async () => {
  const { e2b, pausing, create } = await setup()
  const target = await create()
  expect(await pausing.suspend(target, ASKED, CALL)).toEqual(await pausing.suspend(target, ASKED, CALL))
  expect(e2b.count('pause')).toBe(2)
})

test('a pause whose answer was lost is waited for by the next one', async () => {
  const { e2b, pausing, create } = await setup()
  const target = await create()
  const writing = e2b.holdWhile('pausing')
  const giving = new AbortController()
  const lost = pausing.suspend(target, ASKED, { signal: giving.signal })
  await writing.entered(1)
  giving.abort(new Error('enough'))
  await expect(lost).rejects.toThrow('enough')
  // E2B shows it as paused from the beginning of its pause on.
  let isDone = false
  const again = pausing.suspend(target, ASKED, CALL).finally(() => {
    isDone = true
  })
  await expect.poll(() => e2b.count('pause')).toBe(2)
  expect(isDone).toBe(false)
  writing.open()
  expect(await again).toEqual({ checkpointRef: `${target.ref}@${target.incarnation}` })
})

describe('a pause that did not happen is not claimed', () => {
  test.each([
    ['refused for now, it runs on', nodeBusy, 'busy'],
    ['failed, it runs on', apiError(500, 'Error pausing sandbox'), 'Error pausing'],
    ['in conflict with something else, it runs on', apiError(409, 'Sandbox "x" is being snapshotted'), 'snapshotted'],
    ['only said to be done, it runs on', { kind: 'lie' } as const, 'still runs'],
    ['met by a gateway, it runs on', GATEWAY.plain404, '404'],
    ['met by a gateway with trouble, it runs on', GATEWAY.internalError, '500'],
  ])('%s', async (_what, fault, said) => {
    const { e2b, backend, pausing, create } = await setup()
    const target = await create()
    e2b.next('pause', fault)
    await expect(pausing.suspend(target, ASKED, CALL)).rejects.toMatchObject(fails('sandbox_unreachable', said))
    expect(await backend.look(target.ref, CALL)).toMatchObject({ is: 'running', incarnation: target.incarnation })
  })

  test('it may have lost the sandbox, which is said', async () => {
    const { e2b, backend, pausing, create } = await setup()
    const target = await create()
    e2b.next('pause', { kind: 'lost' })
    await expect(pausing.suspend(target, ASKED, CALL)).rejects.toMatchObject(fails('sandbox_expired'))
    expect(await backend.look(target.ref, CALL)).toEqual({ is: 'absent' })
  })

  test('it may have lost the last run only: then what is there is not taken for it', async () => {
    const { e2b, backend, pausing, create, resume } = await setup()
    const first = await create()
    const { checkpointRef: old } = await pausing.suspend(first, ASKED, CALL)
    const second = await resume(first.ref, old)
    e2b.next('pause', { kind: 'lost' })
    const lost = pausing.suspend(second, ASKED, CALL)
    await expect(lost).rejects.toMatchObject(fails('checkpoint_missing', first.incarnation))
    expect(e2b.stateOf(first.ref)).toBe('paused')
    expect(await backend.look(first.ref, CALL)).toEqual({ is: 'suspended', checkpointRef: old })
    const precedes = (incarnation: string) => pausing.precedes?.(old as string, incarnation)
    expect([precedes(second.incarnation), precedes(first.incarnation)]).toEqual([true, false])
    await backend.end({ ref: first.ref, incarnation: null }, CALL)
    expect(await backend.look(first.ref, CALL)).toEqual({ is: 'absent' })
  })
})

test('one that E2B has killed when its time was over, and shows as it was before, is not taken for what it was', async () => {
  const { e2b, pausing, createElsewhere, resume } = await setup()
  const first = await createElsewhere() // which E2B kills, and does not pause
  const { checkpointRef: old } = await pausing.suspend(first, ASKED, CALL)
  const second = await resume(first.ref, old)
  await e2b.advance(2 * HOUR_MS)
  expect(e2b.stateOf(first.ref)).toBe('paused')
  const newer = `${second.ref}@${second.incarnation}`
  expect(await pausing.verify(newer, CALL)).toMatchObject({ is: 'missing' })
  const sleeping = { ref: first.ref, checkpointRef: newer }
  await expect(pausing.resume(sleeping, WAKING, CALL)).rejects.toMatchObject(fails('checkpoint_missing', newer))
  expect(e2b.stateOf(first.ref)).toBe('paused')
  await expect(pausing.suspend(second, ASKED, CALL)).rejects.toMatchObject(fails('checkpoint_missing'))
})

test('a pause whose upload has failed later is seen to be missing (incident F)', async () => {
  const { e2b, pausing, create } = await setup()
  const target = await create()
  e2b.next('pause', { kind: 'doomed' })
  const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
  expect(await pausing.verify(checkpointRef as string, CALL)).toEqual({ is: 'ready' })
  await e2b.loseUploads()
  expect(await pausing.verify(checkpointRef as string, CALL)).toMatchObject({ is: 'missing' })
  const waking = pausing.resume({ ref: target.ref, checkpointRef }, WAKING, CALL)
  await expect(waking).rejects.toMatchObject(fails('sandbox_expired'))
})

describe('a resume', () => {
  test('asks for its time-to-live: otherwise E2B would give it five minutes (incident G)', async () => {
    const { backend, pausing, create } = await setup()
    const target = await create()
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    await pausing.resume({ ref: target.ref, checkpointRef }, { key: 'op_r', ttlMs: 1_500_000 }, CALL)
    const seen = await backend.look(target.ref, CALL)
    if (seen.is !== 'running' || !seen.endsAt) return expect.unreachable()
    expect(Math.abs(seen.endsAt.getTime() - Date.now() - 1_500_000)).toBeLessThan(20_000)
  })

  test('of one that runs is a success, and asks E2B for nothing', async () => {
    const { e2b, pausing, create, running } = await setup()
    const target = await create()
    await pausing.resume({ ref: target.ref, checkpointRef: 'whatever' }, WAKING, CALL)
    expect(e2b.count('connect')).toBe(0)
    expect(await running(target.ref)).toEqual(target)
  })

  test('by several at once makes one run', async () => {
    const { e2b, backend, pausing, open, create } = await setup()
    const target = await create()
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    const starting = e2b.holdAt('connect')
    const workers = [backend, await open(), await open()]
    const waking = workers.map(
      ({ pausing: each }) => each !== 'none' && each.resume({ ref: target.ref, checkpointRef }, WAKING, CALL),
    )
    await starting.entered(3)
    starting.open()
    await Promise.all(waking)
    expect(await pausing.verify(checkpointRef as string, CALL)).toMatchObject({ is: 'missing' })
    expect(await backend.look(target.ref, CALL)).toMatchObject({ is: 'running' })
  })

  test('that finds E2B in trouble leaves it asleep, and can be asked for again', async () => {
    const { e2b, pausing, create, resume } = await setup()
    const target = await create()
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    for (const fault of [GATEWAY.plain404, nodeBusy, GATEWAY.html502]) {
      e2b.next('connect', fault)
      const waking = pausing.resume({ ref: target.ref, checkpointRef }, WAKING, CALL)
      await expect(waking).rejects.toMatchObject(fails('sandbox_unreachable'))
      expect(e2b.stateOf(target.ref)).toBe('paused')
    }
    e2b.always('connect', apiError(400, 'Max instance length exceeded'))
    const waking = pausing.resume({ ref: target.ref, checkpointRef }, WAKING, CALL)
    await expect(waking).rejects.toMatchObject(fails('sandbox_unreachable', 'no time at all'))
    e2b.heal()
    await resume(target.ref, checkpointRef)
  })

  test('of what is gone, or went meanwhile, says so', async () => {
    const { e2b, pausing, create } = await setup()
    const target = await create()
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    const arriving = e2b.holdOnceAt('connect')
    const late = pausing.resume({ ref: target.ref, checkpointRef }, WAKING, CALL)
    await arriving.entered(1)
    await Sandbox.kill(target.ref, e2b.connection)
    arriving.open()
    await expect(late).rejects.toMatchObject(fails('sandbox_expired'))
    const again = pausing.resume({ ref: target.ref, checkpointRef }, WAKING, CALL)
    await expect(again).rejects.toMatchObject(fails('sandbox_expired'))
  })

  test('of what E2B shows, and cannot find when it is to be woken, misses its checkpoint', async () => {
    const { e2b, pausing, create } = await setup()
    const target = await create()
    const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
    e2b.next('connect', apiError(404, 'snapshot not found'))
    const waking = pausing.resume({ ref: target.ref, checkpointRef }, WAKING, CALL)
    await expect(waking).rejects.toMatchObject(fails('checkpoint_missing', checkpointRef))
  })
})

test('to discard a pause touches nothing, because it is the sandbox itself', async () => {
  const { e2b, pausing, create } = await setup()
  const target = await create()
  const { checkpointRef } = await pausing.suspend(target, ASKED, CALL)
  const before = e2b.requests.length
  await pausing.discard(checkpointRef as string, CALL)
  expect(e2b.requests.length).toBe(before)
})
