import { expect } from 'vitest'
import type { Answer, Fleet, Sandbox } from '../../src/index.ts'
import { QUEUE_OF_KIND } from '../../src/queues/catalog.ts'
import { forkWorker } from '../support/crash.ts'
import { stepOf } from '../support/steps.ts'
import type { World } from '../support/world.ts'

/** What is true at the provider: the instances that carry a sandbox's label. */
export type Truth = (sandboxId: string) => Promise<{ ref: string; is: string; incarnation?: string }[]>

type Case = {
  /** What the operation is asked of. */
  from: 'nothing' | 'running' | 'suspended' | 'lost'
  ask(fleet: Fleet, sandboxId: string, backend: string): Promise<Answer>
  to: Sandbox['state']
}

const CASES: Record<string, Case> = {
  spawn: { from: 'nothing', ask: (fleet, _id, backend) => fleet.spawn({ backend }), to: 'running' },
  pause: { from: 'running', ask: (fleet, id) => fleet.pause(id), to: 'suspended' },
  resume: { from: 'suspended', ask: (fleet, id) => fleet.resume(id), to: 'running' },
  respawn: { from: 'lost', ask: (fleet, id) => fleet.resume(id, { ifLost: 'respawn' }), to: 'running' },
  snapshot: { from: 'running', ask: (fleet, id) => fleet.snapshot(id), to: 'running' },
  kill: { from: 'running', ask: (fleet, id) => fleet.kill(id), to: 'gone' },
  destroy: { from: 'suspended', ask: (fleet, id) => fleet.destroy(id), to: 'gone' },
}

/**
 * SIGKILL after every step of every job: for each, a worker process that dies there. Then one worker that does not die, and
 * everything has to be as if nobody had died: every operation done, at the provider exactly what the rows say, invariants.
 */
export async function crashEverywhere(
  world: World,
  { backend, lose, truth }: { backend: string; lose(sandbox: Sandbox): Promise<void>; truth: Truth },
): Promise<string[]> {
  const { fleet } = world
  const healthy = await world.startWorker()
  const make = async ({ from }: Case): Promise<string> => {
    if (from === 'nothing') return ''
    const sandbox = from === 'running' ? await world.running({ backend }) : await world.suspended({ backend })
    if (from === 'lost') await lose(sandbox)
    return sandbox.id
  }

  // First without a crash, to learn the steps; then as many sandboxes as there are places to die.
  const plans = await Promise.all(
    Object.entries(CASES).map(async ([name, each]) => {
      const { operation } = await each.ask(fleet, await make(each), backend)
      await fleet.operation(operation.id, { wait: '60s' })
      await expect.poll(() => healthy.events.happened.some((event) => isSettled(event, operation.id))).toBe(true)
      const steps = healthy.events.happened.flatMap((event) => stepOf(event, operation.id) ?? [])
      const sandboxIds = []
      for (const _step of steps) sandboxIds.push(await make(each))
      return { name, each, steps, sandboxIds }
    }),
  )
  await healthy.stop()

  const asked: { what: string; operationId: string; sandboxId: string; to: Sandbox['state'] }[] = []
  // One after the other within a queue, because a worker takes whatever is in its queue; the queues at the same time.
  const queues = Map.groupBy(plans, ({ each, name }) =>
    each.from === 'lost' ? 'resume' : QUEUE_OF_KIND[name as 'pause'].name,
  )
  await Promise.all(
    [...queues].map(async ([queue, group]) => {
      for (const { name, each, steps, sandboxIds } of group) {
        for (const [step, what] of steps.entries()) {
          const { operation } = await each.ask(fleet, sandboxIds[step] as string, backend)
          const dying = await forkWorker(world, {
            queues: [queue as 'pause'],
            dieAfter: { operationId: operation.id, step },
          })
          expect(await dying.exited, `${name} after ${what}`).toEqual({ code: null, signal: 'SIGKILL' })
          asked.push({
            what: `${name} after ${what} (${step})`,
            operationId: operation.id,
            sandboxId: operation.sandboxId,
            to: each.to,
          })
        }
      }
    }),
  )

  await world.startWorker()
  for (const { what, operationId, sandboxId, to } of asked) {
    const { operation, sandbox } = await fleet.operation(operationId, { wait: '60s' })
    expect(operation, what).toMatchObject({ status: 'succeeded', lastError: null })
    expect(sandbox.state, what).toBe(to)
    const seen = await truth(sandboxId)
    const expected = {
      running: [{ ref: sandbox.providerRef, is: 'running', incarnation: sandbox.incarnation }],
      suspended: [{ ref: sandbox.providerRef, is: 'suspended' }],
      gone: [],
    }[to as 'running']
    expect(seen, what).toMatchObject(expected)
    expect(seen.length, what).toBe(expected.length)
  }
  await world.expectInvariants()
  return asked.map(({ what }) => what)
}

function isSettled(event: Parameters<typeof stepOf>[0], operationId: string): boolean {
  return stepOf(event, operationId) === 'operation.settled'
}
