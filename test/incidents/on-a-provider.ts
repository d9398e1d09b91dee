import { expect, test } from 'vitest'
import type { Backend, Sighting } from '../../src/backends/backend.ts'
import type { Wire } from '../../src/conformance/index.ts'
import type { Sandbox } from '../../src/index.ts'
import { describeIncident } from '../support/describe-world.ts'
import { QUICK, type World } from '../support/world.ts'

/** A provider, as incidents need it. */
type Stage = {
  name: string
  /** What workers have: every request of theirs is on the wire. */
  open(fleet: string): Promise<Backend>
  wire: Wire
  /** What is true, past the wire. */
  truth(fleet: string): Promise<Backend>
  spec: { template?: string }
  /** Left out where it can pause. */
  pausing?: 'none'
  /** What the provider does by itself: some put a sandbox to sleep when its time is over. */
  putToSleep?(ref: string): Promise<void>
  remove(ref: string): Promise<void>
  /** Which requests begin an instance, and which end one. */
  creates(request: { method: string; path: string }): boolean
  ends(request: { method: string; path: string }): boolean
  /** What an agent that was killed beside a living sidecar ends as; and whether that is for its memory. */
  agentEnds: { limits?: { memoryBytesMax: number }; script: string; as: object }
}

const COUNTING = ['sh', '-c', 'i=0; while :; do i=$((i+1)); echo $i > next && mv next count; sleep 0.02; done']
const CALL = { signal: new AbortController().signal }
const WAIT = { wait: '50s' } as const

/** The incidents of a whole fleet that a real provider can show; those of the backend alone are cases of the conformance suite. */
export function describeOnProvider(stage: Stage): void {
  const { name, wire } = stage
  const options = { stores: ['postgres' as const], open: stage.open }
  const spawned = { backend: name, ...stage.spec }
  const counting = {
    ...spawned,
    agent: { command: COUNTING },
    wake: { commands: ['until [ -s count ]; do sleep 0.02; done', 'echo woken >> wakings'] },
  }
  const look = async (world: World, { providerRef }: Sandbox): Promise<Sighting> =>
    (await stage.truth(world.place.fleet)).look(providerRef as string, CALL)
  const instances = async (world: World, { id }: { id: string }) =>
    (await stage.truth(world.place.fleet)).find(id, CALL)
  const run = async (world: World, sandbox: Sandbox, command: string): Promise<string> => {
    const truth = await stage.truth(world.place.fleet)
    const target = { ref: sandbox.providerRef as string, incarnation: sandbox.incarnation as string }
    return (await truth.run(target, command, CALL)).output
  }

  describeIncident(
    `C, on ${name}`,
    (world) => {
      test('the execution of an agent that was killed fails within seconds, although its sidecar lives', async () => {
        const { fleet } = world()
        const { limits, script, as } = stage.agentEnds
        const sandbox = await world().running({
          ...spawned,
          agent: {
            command: ['sh', '-c', `until [ -e go ]; do sleep 0.05; done; ${script}`],
            sidecar: { command: ['sleep', '1000'] },
          },
          ...(limits && { limits }),
        })
        const following = fleet.execute(sandbox.id, WAIT)
        await expect
          .poll(async () => (await fleet.executions({ sandboxId: sandbox.id })).items[0]?.status)
          .toBe('running')
        await run(world(), sandbox, 'touch go')
        const { execution } = await following
        expect(execution).toMatchObject({ status: 'failed', ...as })
        await fleet.destroy(sandbox.id, WAIT)
      })
    },
    options,
  )

  describeIncident(
    `N and O, on ${name}`,
    (world) => {
      test('an end that hangs is given up, and done by the next attempt; nothing is said to be gone before', async () => {
        const { fleet } = world()
        const sandbox = await world().running(spawned)
        wire.fail({ kind: 'hang' }, stage.ends)
        const { operation } = await fleet.destroy(sandbox.id)
        await wire.struck()
        expect((await fleet.get(sandbox.id)).state).toBe('killing')
        expect((await look(world(), sandbox)).is).toBe('running')
        wire.heal()
        const settled = await fleet.operation(operation.id, WAIT)
        expect(settled.operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
        expect(await instances(world(), sandbox)).toEqual([])
      })
    },
    { ...options, patience: { ...QUICK, callMs: { ...QUICK.callMs, end: 2_000 } } },
  )

  describeIncident(
    `P, on ${name}`,
    (world) => {
      test('one whose making was answered to nobody is found by its label, and is the only one', async () => {
        const { fleet } = world()
        let isFirst = true
        wire.fail({ kind: 'lost answer' }, (request) => {
          const strikes = isFirst && stage.creates(request)
          if (strikes) isFirst = false
          return strikes
        })
        const { operation, sandbox } = await fleet.spawn({ ...spawned, ...WAIT })
        wire.heal()
        expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done', attempt: 2, error: null })
        expect(await instances(world(), sandbox)).toMatchObject([{ ref: sandbox.providerRef }])
        await fleet.destroy(sandbox.id, WAIT)
      })
    },
    options,
  )

  if (stage.pausing === 'none') return

  describeIncident(
    `A, on ${name}`,
    (world) => {
      test('a sandbox that is suspended twice has a checkpoint each time, and its state, history and checkpoints agree', async () => {
        const { fleet } = world()
        const first = await world().suspended(counting)
        const { sandbox: awake } = await fleet.resume(first.id, WAIT)
        expect(await run(world(), awake, 'cat wakings')).toBe('woken\nwoken\n')
        const { operation, sandbox: second } = await fleet.pause(first.id, WAIT)
        expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
        expect(second.checkpoint?.providerRef).not.toBe(first.checkpoint?.providerRef)
        expect(await look(world(), second)).toEqual({
          is: 'suspended',
          checkpointRef: second.checkpoint?.providerRef,
        })
        const { items } = await fleet.events(first.id)
        expect(items.map(({ type }) => type).filter((type) => type === 'paused')).toHaveLength(2)
        await fleet.destroy(first.id, WAIT)
        expect(await instances(world(), first)).toEqual([])
      })
    },
    options,
  )

  describeIncident(
    `D, on ${name}`,
    (world) => {
      test('a resume that is not answered leaves it suspended and can be tried again; then its hooks are run', async () => {
        const { fleet } = world()
        const { id } = await world().suspended(counting)
        wire.fail({ kind: 'answer', status: 502, type: 'text/html', body: '<h1>Bad Gateway</h1>' })
        const failed = await fleet.resume(id, WAIT)
        wire.heal()
        expect(failed.operation).toMatchObject({
          status: 'failed',
          error: { errorType: 'sandbox_unreachable', retryable: true },
        })
        expect(failed.sandbox.state).toBe('suspended')
        const again = await fleet.resume(id, WAIT)
        expect(again.operation.status).toBe('succeeded')
        expect(await run(world(), again.sandbox, 'cat wakings')).toBe('woken\nwoken\n')
        await fleet.destroy(id, WAIT)
      })

      test('one that its provider has deleted is gone, which is said so, and is replaced for who allows it', async () => {
        const { fleet } = world()
        const before = await world().suspended(counting)
        await stage.remove(before.providerRef as string)
        const { operation, sandbox } = await fleet.resume(before.id, { ...WAIT, ifLost: 'respawn' })
        expect(operation).toMatchObject({ status: 'succeeded', outcome: 'respawned' })
        expect(sandbox).toMatchObject({ id: before.id, state: 'running', agentThreadId: null })
        await stage.remove(sandbox.providerRef as string)
        const lost = await fleet.pause(before.id, WAIT)
        expect(lost.operation).toMatchObject({
          status: 'failed',
          error: { errorType: 'sandbox_expired', retryable: false },
        })
        expect(lost.sandbox.state).toBe('gone')
      })
    },
    options,
  )

  describeIncident(
    `E, on ${name}`,
    (world) => {
      test('twenty who ask for a pause get one; a kill then finds nothing to free', async () => {
        const { fleet } = world()
        const { id } = await world().running(counting)
        const answers = await Promise.all(Array.from({ length: 20 }, () => fleet.pause(id, WAIT)))
        expect(new Set(answers.map(({ operation }) => operation.status))).toEqual(new Set(['succeeded']))
        expect(answers.filter(({ operation }) => operation.outcome === 'done').length).toBeGreaterThan(0)
        expect(
          (await world().operations(id)).filter(({ kind, outcome }) => kind === 'pause' && outcome === 'done'),
        ).toHaveLength(1)
        const killed = await fleet.kill(id, WAIT)
        expect(killed.operation).toMatchObject({ status: 'succeeded', outcome: 'already_done' })
        expect(killed.sandbox.state).toBe('suspended')
        await fleet.destroy(id, WAIT)
      })
    },
    options,
  )

  const { putToSleep } = stage
  if (putToSleep)
    describeIncident(
      `H, on ${name}`,
      (world) => {
        test('a sandbox that its provider has put to sleep is paused, and comes back', async () => {
          const { fleet } = world()
          const running = await world().running(counting)
          await putToSleep(running.providerRef as string)
          const { operation, sandbox } = await fleet.pause(running.id, WAIT)
          expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done', error: null })
          expect(sandbox).toMatchObject({ state: 'suspended', checkpoint: { status: 'ready' } })
          expect((await fleet.resume(running.id, WAIT)).operation.status).toBe('succeeded')
          await fleet.destroy(running.id, WAIT)
        })
      },
      options,
    )
}
