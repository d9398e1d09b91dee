import { expect, test } from 'vitest'
import { CALL, engine, IDLING, newId, onEngine, setup, sh, wantedOf, wired } from './setup.ts'

const COUNTING = sh('i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done')

onEngine(() => {
  test('an engine without checkpoints is not asked for any, and says what to do', async () => {
    const bench = await setup({ pause: 'checkpoint' })
    const { wire, backend } = await wired(bench)
    await backend.lists.place(CALL)
    const info = await engine<object>('GET', '/info')
    const body = JSON.stringify({ ...info, ExperimentalBuild: false })
    wire.fail({ kind: 'answer', status: 200, type: 'application/json', body }, ({ path }) => path === '/info')
    const refusal = { type: 'spec_invalid', message: expect.stringMatching(/"experimental": true/) }
    await expect(backend.create(wantedOf(), CALL)).rejects.toMatchObject(refusal)
    const target = await bench.create()
    await expect(backend.pausing.suspend(target, { key: newId('op') }, CALL)).rejects.toMatchObject(refusal)
    expect(await bench.awake(target.ref)).toEqual({ ref: target.ref, incarnation: target.incarnation })
    const besides = wantedOf({ agent: { command: IDLING, sidecar: { command: IDLING } } })
    await expect(bench.backend.create(besides, CALL)).rejects.toMatchObject({ type: 'spec_invalid' })
  })

  test('what the runtime cannot write down goes on, and fails with the words of the engine', async () => {
    const bench = await setup({ pause: 'checkpoint' })
    const target = await bench.create({ agent: { command: COUNTING } })
    // Whoever has a CRIU that knows this kernel sees it sleep.
    const outcome = await bench.suspend(target).catch((error: unknown) => error)
    if (outcome instanceof Error) {
      expect(outcome).toMatchObject({ type: 'sandbox_unreachable', message: expect.stringMatching(/checkpoint/) })
      expect(await bench.awake(target.ref)).toEqual({ ref: target.ref, incarnation: target.incarnation })
    } else await bench.resume(target.ref)
    expect(await bench.run(await bench.awake(target.ref), 'echo on')).toBe('on\n')
  })

  test('in gVisor, memory is written to disk: what has ended by that sleeps, and goes on in the same process', async () => {
    const { Runtimes } = await engine<{ Runtimes: object }>('GET', '/info')
    expect(Object.keys(Runtimes)).toContain('runsc') // it is installed with the engine of the tests
    const bench = await setup({ pause: 'checkpoint', runtime: 'runsc' })
    const target = await bench.create({ agent: { command: COUNTING } })
    const checkpointRef = await bench.suspend(target)
    expect((await bench.inspect(target.ref)).State.Status).toBe('exited')
    expect(await bench.backend.look(target.ref, CALL)).toEqual({ is: 'suspended', checkpointRef })
    expect(await bench.backend.agentStatus({ ...target, key: undefined }, CALL)).toEqual({ is: 'asleep' })
    expect(await bench.pausing.verify(checkpointRef ?? '', CALL)).toEqual({ is: 'ready' })

    const frozen = await bench.open({ pause: 'freeze' })
    await frozen.pausing.resume({ ref: target.ref, checkpointRef }, { key: newId('op'), ttlMs: 1_000 }, CALL)
    const awake = await bench.awake(target.ref)
    expect(awake.incarnation).not.toBe(target.incarnation)
    let heard = ''
    for await (const { bytes } of bench.backend.attach({ ...awake, key: undefined }, undefined, CALL)) {
      heard += Buffer.from(bytes)
      if (heard.split('\n').length > 30) break
    }
    const lines = heard.split('\n').slice(0, -1).map(Number)
    expect(lines).toEqual(lines.map((_line, at) => at + 1))
    expect(await bench.pausing.verify(checkpointRef ?? '', CALL)).toMatchObject({ is: 'missing' })
    await expect(bench.suspend(awake)).rejects.toMatchObject({ type: 'spec_invalid' }) // not a second time
    expect(await bench.awake(target.ref)).toEqual(awake)
  })
})
