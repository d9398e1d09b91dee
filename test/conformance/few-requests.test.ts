import { afterAll, beforeAll, expect, test } from 'vitest'
import { openBoxesBackend } from '../../examples/boxes/backend.ts'
import { boxesClient } from '../../examples/boxes/client.ts'
import { startBoxes } from '../../examples/boxes/service.ts'
import { type Backend, BackendError, type Target } from '../../src/backends/backend.ts'
import { conformance, startWire } from '../../src/conformance/index.ts'

type Nap = { count: number; isAsleep: boolean }

let boxes: Awaited<ReturnType<typeof startBoxes>>
let wire: Awaited<ReturnType<typeof startWire>>
beforeAll(async () => {
  boxes = await startBoxes()
  wire = await startWire(boxes.url)
})
afterAll(async () => {
  await wire.close()
  await boxes.stop()
})

/** Boxes that can nap, for which they need one request each way: fewer than the suite lets fail. */
function openNapping(url: string, fleet: string, naps: Map<string, Nap>): Backend {
  const inner = openBoxesBackend({ url, fleet })
  const { require } = boxesClient(url)
  const napOf = (ref: string) => naps.get(ref) ?? { count: 0, isAsleep: false }
  const awake = <T extends Pick<Target, 'ref' | 'incarnation'>>(target: T) => {
    const [born, count] = (target.incarnation ?? '').split('.')
    const nap = napOf(target.ref)
    if (!nap.isAsleep && count === String(nap.count)) return { ...target, incarnation: born as string }
    throw new BackendError('overtaken', `${target.ref} has napped ${nap.count} times, and ${count} was meant`)
  }
  return {
    ...inner,
    async look(ref, call) {
      const seen = await inner.look(ref, call)
      const { count, isAsleep } = napOf(ref)
      if (seen.is !== 'running') return seen
      return isAsleep
        ? { is: 'suspended', checkpointRef: `${ref}@${count}` }
        : { is: 'running', incarnation: `${seen.incarnation}.${count}` }
    },
    end: async (target, call) => inner.end(awake(target), call),
    run: async (target, command, call) => inner.run(awake(target), command, call),
    endLingering: async (target, call) => inner.endLingering(awake(target), call),
    startAgent: async (target, asked, call) => inner.startAgent(awake(target), asked, call),
    stopAgent: async (agent, call) => inner.stopAgent(awake(agent), call),
    agentStatus: async (agent, call) => inner.agentStatus(awake(agent), call),
    async *attach(agent, cursor, call) {
      yield* inner.attach(awake(agent), cursor, call)
    },
    pausing: {
      preserves: 'memory',
      consumesCheckpoint: true,
      needsCheckpoint: false,
      async suspend(target, _asked, call) {
        await require(target.ref, call)
        const { count } = napOf(awake(target).ref)
        naps.set(target.ref, { count, isAsleep: true })
        return { checkpointRef: `${target.ref}@${count}` }
      },
      async resume({ ref }, _asked, call) {
        await require(ref, call)
        const { count, isAsleep } = napOf(ref)
        if (isAsleep) naps.set(ref, { count: count + 1, isAsleep: false })
      },
      async verify(checkpointRef, call) {
        await require(checkpointRef.split('@')[0] as string, call)
        return { is: 'ready' }
      },
      discard: async () => {},
    },
  }
}

test('a backend whose verbs need fewer requests than the suite lets fail is judged by those that it makes', async () => {
  const naps = new Map<string, Nap>()
  const { cases, close } = conformance({
    open: async (fleet) => openNapping(boxes.url, fleet, naps),
    wire: { wire, open: async (fleet) => openNapping(wire.url, fleet, naps) },
    claims: {
      pausing: 'memory',
      snapshots: false,
      lease: false,
      labelsAdopted: false,
      memoryLimit: false,
      sidecar: 'none',
    },
  })
  const met = cases.filter(({ name }) => name.includes('at any request'))
  for (const { run } of met) await run()
  expect(met.length).toBe(3)
  await close()
}, 120_000)
