import { expect, test } from 'vitest'
import type { Backend, Pausing } from '../../../src/backends/backend.ts'
import type { Wire } from '../../../src/conformance/wire.ts'
import { type Bench, CALL, engine, IDLING, imagesOf, newId, onEngine, setup, sh, wired } from './setup.ts'

/** Says in a file when it begins, and when it is asked to end. */
const AGENT = sh('echo begun >> /log; trap "echo asked >> /log; exit 0" TERM; sleep 1000 & wait')
const tagsOf = async (bench: Bench) =>
  (await imagesOf(bench)).flatMap(({ RepoTags }) => RepoTags ?? []).filter((tag) => tag !== '<none>:<none>')

/**
 * Breaks off at the first step that changes something, in another sandbox at the second, and so on. What is asked for is done, and
 * whoever asked is not there any more. Returns how many steps there are.
 */
async function atEveryStep(
  bench: Bench,
  stepsMax: number,
  attempt: (step: number, broken: { backend: Backend & { pausing: Pausing }; wire: Wire }) => Promise<void>,
): Promise<number> {
  const met = await Promise.all(
    Array.from({ length: stepsMax }, async (_, at) => {
      const broken = await wired(bench)
      let steps = 0
      broken.wire.fail({ kind: 'lost answer' }, ({ method }) => method !== 'GET' && ++steps === at + 1)
      await attempt(at + 1, broken)
      return broken.wire.met
    }),
  )
  return met.filter((times) => times > 0).length
}

onEngine(() => {
  test('it is asked to end, kept as an image, and begins anew as it was made, with its files', async () => {
    const bench = await setup({ pause: 'disk' })
    const sidecar = { command: sh('echo $WHOSE > /mine; exec sleep 1000'), env: { WHOSE: 'beside' } }
    const target = await bench.create({
      agent: { command: AGENT, env: { GREETING: 'hello' }, sidecar },
      limits: { memoryBytesMax: 64 << 20 },
    })
    const checkpointRef = await bench.suspend(target)
    expect(await bench.containers()).toEqual([])
    expect(await tagsOf(bench)).toHaveLength(1)
    expect(await bench.backend.look(target.ref, CALL)).toEqual({ is: 'suspended', checkpointRef })
    expect(await bench.pausing.verify(checkpointRef ?? '', CALL)).toEqual({
      is: 'ready',
      sizeBytes: expect.any(Number),
    })
    const { sandboxId, life } = target.wanted
    expect(await bench.backend.find(sandboxId, CALL)).toEqual([{ ref: target.ref, life }])
    expect((await bench.backend.lists.instances(undefined, CALL)).items).toEqual([{ ref: target.ref, sandboxId, life }])

    const awake = await bench.resume(target.ref)
    expect(awake.incarnation).not.toBe(target.incarnation)
    await expect.poll(() => bench.run(awake, 'cat /log; echo $GREETING$WHOSE')).toBe('begun\nasked\nbegun\nhello\n')
    expect((await bench.inspect(target.ref)).HostConfig).toMatchObject({ Memory: 64 << 20, CapDrop: ['ALL'] })
    expect((await bench.containers()).map(({ State }) => State)).toEqual(['running', 'running'])
    expect(await tagsOf(bench)).toEqual([])
    await bench.backend.end(awake, CALL)
    expect(await imagesOf(bench)).toEqual([])
  })

  test('whatever step of a pause is the last of a worker, it runs or it sleeps, and is never lost', {
    timeout: 180_000,
  }, async () => {
    const bench = await setup({ pause: 'disk' })
    const steps = await atEveryStep(bench, 9, async (step, { backend, wire }) => {
      const target = await bench.create({ agent: { command: AGENT, sidecar: { command: IDLING } } })
      const { ref } = target
      const suspending = backend.pausing.suspend(target, { key: newId('op') }, CALL)
      await suspending.catch((error) => expect(error).toMatchObject({ type: 'sandbox_unreachable' }))
      wire.heal()
      const seen = await bench.backend.look(ref, CALL)
      expect(['running', 'suspended'], `step ${step}: ${JSON.stringify(seen)}`).toContain(seen.is)
      if (seen.is === 'running') await bench.suspend(target)
      if (seen.is === 'suspended')
        expect(await bench.pausing.verify(seen.checkpointRef ?? '', CALL)).toMatchObject({ is: 'ready' })
      const awake = await bench.resume(ref)
      await expect.poll(() => bench.run(awake, 'cat /log')).toMatch(/^begun\nasked\nbegun\n/)
      const parts = (await bench.containers()).filter(({ Labels }) => Labels['sandman.ref'] === ref)
      expect(parts.map(({ State }) => State)).toEqual(['running', 'running'])
      await bench.backend.end(awake, CALL)
    })
    expect(steps).toBe(8)
    expect(await bench.containers()).toEqual([])
    expect(await imagesOf(bench)).toEqual([])
  })

  test('whatever step of a waking is the last of a worker, it sleeps or it runs, and is woken by the next', {
    timeout: 180_000,
  }, async () => {
    const bench = await setup({ pause: 'disk' })
    const steps = await atEveryStep(bench, 6, async (step, { backend, wire }) => {
      const target = await bench.create({ agent: { command: AGENT, sidecar: { command: IDLING } } })
      const { ref } = target
      await bench.suspend(target)
      const waking = backend.pausing.resume({ ref, checkpointRef: undefined }, { key: newId('op'), ttlMs: 1_000 }, CALL)
      await waking.catch((error) => expect(error).toMatchObject({ type: 'sandbox_unreachable' }))
      wire.heal()
      const seen = await bench.backend.look(ref, CALL)
      expect(['running', 'suspended'], `step ${step}: ${JSON.stringify(seen)}`).toContain(seen.is)
      const awake = await bench.resume(ref)
      await expect.poll(() => bench.run(awake, 'cat /log')).toMatch(/^begun\nasked\nbegun\n/)
      const parts = (await bench.containers()).filter(({ Labels }) => Labels['sandman.ref'] === ref)
      expect(parts.map(({ State }) => State)).toEqual(['running', 'running'])
    })
    expect(steps).toBe(5)
  })

  test('a second attempt goes on with what the first is still stopping, and dying does not lose it', async () => {
    const bench = await setup({ pause: 'disk' })
    const slow = sh('trap "sleep 1; exit 0" TERM; touch /ready; while :; do sleep 0.05; done')
    const target = await bench.create({ agent: { command: slow } })
    await bench.run(target, 'until [ -e /ready ]; do sleep 0.05; done')
    const { wire, backend } = await wired(bench)
    const abort = new AbortController()
    wire.fail({ kind: 'hang' }, ({ path }) => {
      if (path.includes('/stop')) setImmediate(() => abort.abort(new Error('the worker has died')))
      return false
    })
    await expect(backend.pausing.suspend(target, { key: newId('op') }, abort)).rejects.toThrow('the worker has died')
    wire.fail({ kind: 'cut' }, ({ path }) => path.includes('/commit'))
    await backend.pausing.suspend(target, { key: newId('op') }, CALL).catch(() => {})
    wire.heal()
    await expect.poll(async () => (await bench.backend.look(target.ref, CALL)).is).toBe('suspended')
    await bench.run(await bench.resume(target.ref), 'true')
  })

  test('what it slept as is not taken for it later, although whoever woke it died before that lost its name', async () => {
    const bench = await setup({ pause: 'disk' })
    const target = await bench.create()
    await bench.suspend(target)
    const { wire, backend } = await wired(bench)
    wire.fail({ kind: 'cut' }, ({ method, path }) => method === 'DELETE' && path.includes('/images/'))
    const waking = backend.pausing.resume(
      { ref: target.ref, checkpointRef: undefined },
      { key: 'op_x', ttlMs: 1_000 },
      CALL,
    )
    await expect(waking).rejects.toMatchObject({ type: 'sandbox_unreachable' })
    wire.heal()
    expect(await tagsOf(bench)).toHaveLength(1)
    // As every waking does that finds it running.
    await bench.backend.endLingering(await bench.awake(target.ref), CALL)
    expect(await tagsOf(bench)).toEqual([])
    await engine('DELETE', `/containers/${target.ref}?force=1`)
    expect(await bench.backend.look(target.ref, CALL)).toEqual({ is: 'absent' })
  })

  test('what an image would not hold is refused while it still runs', async () => {
    const bench = await setup({ pause: 'disk' })
    const target = await bench.create({ agent: { command: IDLING } })
    const { Id, HostConfig } = await bench.inspect(target.ref)
    const { Config } = (await bench.inspect(target.ref)) as unknown as { Config: object }
    await engine('DELETE', `/containers/${Id}?force=1`)
    const body = { ...Config, Hostname: '', Volumes: { '/data': {} }, HostConfig }
    await engine('POST', `/containers/create?name=${target.ref}`, body)
    await engine('POST', `/containers/${target.ref}/start`)
    const awake = await bench.awake(target.ref)
    await expect(bench.suspend(awake)).rejects.toMatchObject({
      type: 'spec_invalid',
      message: expect.stringMatching(/volume at \/data/),
    })
    expect(await bench.awake(target.ref)).toEqual(awake)
  })

  test('a sandbox begins as one that sleeps on disk, and both have their files', async () => {
    const bench = await setup({ pause: 'disk' })
    const target = await bench.create()
    await bench.run(target, 'echo here > /kept')
    const checkpointRef = await bench.suspend(target)
    const copy = await bench.create({}, { checkpointRef })
    expect(await bench.run(copy, 'cat /kept; echo there > /kept')).toBe('here\n')
    expect(await bench.run(await bench.resume(target.ref), 'cat /kept')).toBe('here\n')
    const frozen = await bench.open({ pause: 'freeze' })
    const { checkpointRef: frozenRef } = await frozen.pausing.suspend(copy, { key: newId('op') }, CALL)
    await expect(bench.create({}, { checkpointRef: frozenRef })).rejects.toMatchObject({ type: 'spec_invalid' })
  })
})
