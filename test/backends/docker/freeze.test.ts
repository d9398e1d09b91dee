import { expect, test } from 'vitest'
import { CALL, engine, IDLING, newId, onEngine, setup, sh } from './setup.ts'

const COUNTING = sh('i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done')

onEngine(() => {
  test('a frozen sandbox stands still with its sidecar, and goes on with it as a new incarnation', async () => {
    const bench = await setup()
    const first = await bench.create({ agent: { command: COUNTING, sidecar: { command: IDLING } } })
    const seen = new Set([first.incarnation])
    let target: typeof first | Awaited<ReturnType<typeof bench.awake>> = first
    for (const time of [1, 2, 3]) {
      const checkpointRef = await bench.suspend(target)
      expect((await bench.containers()).map(({ State }) => State)).toEqual(['paused', 'paused'])
      expect(await bench.backend.look(first.ref, CALL)).toEqual({ is: 'suspended', checkpointRef })
      expect(await bench.pausing.verify(checkpointRef ?? '', CALL)).toEqual({ is: 'ready' })
      target = await bench.resume(first.ref)
      expect((await bench.containers()).map(({ State }) => State)).toEqual(['running', 'running'])
      expect(await bench.pausing.verify(checkpointRef ?? '', CALL)).toMatchObject({ is: 'missing' })
      expect(seen.add(target.incarnation).size).toBe(time + 1)
    }
    const counted = (await bench.hear({ ...first, key: undefined })).toString()
    expect(counted).toBe('') // of another incarnation than the one that was meant nothing is told
    let heard = ''
    for await (const { bytes } of bench.backend.attach({ ...target, key: undefined }, undefined, CALL)) {
      heard += Buffer.from(bytes)
      if (heard.split('\n').length > 10) break
    }
    const lines = heard.split('\n').slice(0, -1).map(Number)
    expect(lines).toEqual(lines.map((_line, at) => at + 1))
  })

  test('a sandbox that was half put to sleep runs, and is put to sleep or woken by whoever asks next', async () => {
    const bench = await setup()
    const target = await bench.create({ agent: { command: IDLING, sidecar: { command: IDLING } } })
    const half = async () => {
      const { Name, State } = await bench.inspect(target.ref)
      const name = `${Name.slice(1)}.freeze-op_half.${State.StartedAt.replace(/\W/g, '')}`
      await engine('POST', `/containers/${Name.slice(1)}/rename?name=${name}`)
      await engine('POST', `/containers/${target.ref}.sidecar/pause`)
      expect(await bench.awake(target.ref)).toEqual({ ref: target.ref, incarnation: target.incarnation })
    }
    await half()
    expect(await bench.resume(target.ref)).toEqual({ ref: target.ref, incarnation: target.incarnation })
    expect((await bench.containers()).map(({ State }) => State)).toEqual(['running', 'running'])
    await half()
    await bench.suspend(target)
    expect((await bench.containers()).map(({ State }) => State)).toEqual(['paused', 'paused'])
    await bench.resume(target.ref)
  })

  test('one that is paused by hand, or while it is copied, does not sleep', async () => {
    const bench = await setup()
    const target = await bench.create({ agent: { command: IDLING } })
    await engine('POST', `/containers/${target.ref}/pause`)
    expect(await bench.backend.look(target.ref, CALL)).toMatchObject({
      is: 'changing',
      incarnation: target.incarnation,
    })
    expect(await bench.backend.agentStatus({ ...target, key: undefined }, CALL)).toEqual({ is: 'running' })
    await expect(bench.backend.end({ ref: target.ref, incarnation: null }, CALL)).rejects.toMatchObject({
      type: 'overtaken',
    })
    const waiting = bench.run(target, 'echo on')
    await engine('POST', `/containers/${target.ref}/unpause`)
    expect(await waiting).toBe('on\n')
  })

  test('what was frozen and has been killed is lost, and said to be', async () => {
    const bench = await setup()
    const target = await bench.create({ agent: { command: IDLING } })
    const checkpointRef = await bench.suspend(target)
    await engine('POST', `/containers/${(await bench.inspect(target.ref)).Id}/kill`)
    await expect
      .poll(() => bench.backend.look(target.ref, CALL))
      .toMatchObject({ is: 'lost', why: expect.stringMatching(/what was frozen in it is gone/) })
    expect(await bench.pausing.verify(checkpointRef ?? '', CALL)).toMatchObject({ is: 'missing' })
    await expect(bench.resume(target.ref)).rejects.toMatchObject({ type: 'checkpoint_missing' })
  })

  test('it is woken by what has put it to sleep, whichever way a worker would do it itself', async () => {
    const bench = await setup()
    const disk = await bench.open({ pause: 'disk' })
    const target = await bench.create()
    await bench.suspend(target)
    expect(await disk.pausing.suspend(target, { key: newId('op') }, CALL)).toMatchObject({
      checkpointRef: expect.stringContaining('.freeze-'),
    })
    const waking = { key: newId('op'), ttlMs: 1_000 }
    await disk.pausing.resume({ ref: target.ref, checkpointRef: undefined }, waking, CALL)
    const awake = await bench.awake(target.ref)
    await disk.pausing.suspend(awake, { key: newId('op') }, CALL)
    expect(await bench.containers()).toEqual([])
    expect(await bench.run(await bench.resume(target.ref), 'echo on')).toBe('on\n')
  })
})
