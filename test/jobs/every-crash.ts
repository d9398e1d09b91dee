import { expect } from 'vitest'
import type { Answer, Fleet, Sandbox } from '../../src/index.ts'
import { QUEUE_OF_KIND } from '../../src/queues/catalog.ts'
import { forkWorker } from '../support/crash.ts'
import { placesOf } from '../support/steps.ts'
import { QUICK, type World } from '../support/world.ts'

/** What is true at the provider: the instances that carry a sandbox's label. */
type Truth = (sandboxId: string) => Promise<{ ref: string; is: string; incarnation?: string }[]>

/** What the sandboxes are made from. */
type Made = Parameters<Fleet['spawn']>[0]

type Case = {
  /** What the operation is asked of. */
  from: 'nothing' | 'running' | 'suspended' | 'lost'
  ask(fleet: Fleet, sandboxId: string, made: Made): Promise<Answer>
  to: 'running' | 'suspended' | 'gone'
  /** The last step, for a job that tidies up after it has settled. */
  last?: string
}

const CASES: Record<string, Case> = {
  spawn: { from: 'nothing', ask: (fleet, _id, made) => fleet.spawn(made), to: 'running' },
  pause: { from: 'running', ask: (fleet, id) => fleet.pause(id), to: 'suspended' },
  resume: { from: 'suspended', ask: (fleet, id) => fleet.resume(id), to: 'running', last: 'discard' },
  respawn: { from: 'lost', ask: (fleet, id) => fleet.resume(id, { ifLost: 'respawn' }), to: 'running' },
  snapshot: { from: 'running', ask: (fleet, id) => fleet.snapshot(id), to: 'running' },
  kill: { from: 'running', ask: (fleet, id) => fleet.kill(id), to: 'gone' },
  destroy: { from: 'suspended', ask: (fleet, id) => fleet.destroy(id), to: 'gone' },
}

/** Who is held up does not run into a deadline before it is killed. */
const ENDLESS = {
  ...QUICK,
  callMs: Object.fromEntries(Object.keys(QUICK.callMs).map((call) => [call, 600_000])) as typeof QUICK.callMs,
}

/**
 * SIGKILL after every step of every job. A worker process works on as many operations as their job has steps, each of which
 * stops after another one, and is then killed. Then one worker that is not killed, and everything has to be as if nobody had
 * died: every operation done, at the provider exactly what the rows say, invariants.
 */
export async function crashEverywhere(
  world: World,
  { made, lose, truth }: { made: Made; lose(sandbox: Sandbox): Promise<void>; truth: Truth },
): Promise<string[]> {
  const { fleet } = world
  const healthy = await world.startWorker()
  const make = async ({ from }: Case): Promise<string> => {
    if (from === 'nothing') return ''
    const sandbox = from === 'running' ? await world.running(made) : await world.suspended(made)
    if (from === 'lost') await lose(sandbox)
    return sandbox.id
  }

  // First without a crash, to learn the steps; then as many sandboxes as there are places to die.
  const plans = await Promise.all(
    Object.entries(CASES).map(async ([name, each]) => {
      const { operation } = await each.ask(fleet, await make(each), made)
      await fleet.operation(operation.id, { wait: '60s' })
      const places = () => placesOf(healthy.events.happened, operation.id)
      await expect.poll(() => places().at(-1)?.after).toBe(each.last ?? 'it had settled')
      return { name, each, places: places(), sandboxIds: await Promise.all(places().map(() => make(each))) }
    }),
  )
  await healthy.stop()

  const died: { what: string; operationId: string; sandboxId: string; to: Case['to'] }[] = []
  for (const { name, each, places, sandboxIds } of plans) {
    const asked = []
    for (const [at, { place, after }] of places.entries()) {
      const { operation } = await each.ask(fleet, sandboxIds[at] as string, made)
      asked.push({ place, operationId: operation.id })
      died.push({
        what: `${name} after ${after}`,
        operationId: operation.id,
        sandboxId: operation.sandboxId,
        to: each.to,
      })
    }
    const queue = QUEUE_OF_KIND[name === 'respawn' ? 'resume' : (name as 'pause')].name
    const dieAt = Object.fromEntries(asked.map(({ operationId, place }) => [operationId, place]))
    const dying = await forkWorker(world, { queues: [queue], patience: ENDLESS, dieAt })
    await dying.reached(asked.filter(({ place }) => place !== 'settled').map(({ operationId }) => operationId))
    dying.child.send('now the one that dies when it has settled')
    expect(await dying.exited, name).toEqual({ code: null, signal: 'SIGKILL' })
  }

  await world.startWorker()
  for (const { what, operationId, sandboxId, to } of died) {
    const { operation, sandbox } = await fleet.operation(operationId, { wait: '60s' })
    expect(operation, what).toMatchObject({ status: 'succeeded', lastError: null })
    expect(sandbox.state, what).toBe(to)
    const seen = await truth(sandboxId)
    const expected = {
      running: [{ ref: sandbox.providerRef, is: 'running', incarnation: sandbox.incarnation }],
      suspended: [{ ref: sandbox.providerRef, is: 'suspended' }],
      gone: [],
    }[to]
    expect(seen, what).toMatchObject(expected)
    expect(seen.length, what).toBe(expected.length)
  }
  await world.expectInvariants()
  return died.map(({ what }) => what)
}
