import { expect } from 'vitest'
import type { Execution, Sandbox } from '../../src/index.ts'
import { describeWorld } from '../support/describe-world.ts'
import type { FakeAgent } from '../support/provider/agent.ts'
import type { StoreKind } from '../support/stores.ts'
import { QUICK, type World } from '../support/world.ts'

/** Breaks of a stream that come to their end soon. */
export const BRIEF = {
  ...QUICK,
  breaksMax: 4,
  breakMs: [5, 50] as const,
  overdueMs: 1_000,
  interruptMs: 5_000,
  heldMs: 500,
  quietMs: 1_000,
  drainQuietMs: 200,
  drainMs: 2_000,
  listenMs: [200, 500] as const,
}

/** A world for the file, with a worker in it that loses its patience soon. */
export function describeExecutions(
  name: string,
  tests: (world: () => World) => void,
  options: { worker?: boolean; stores?: StoreKind[] } = {},
): void {
  describeWorld(name, tests, { patience: BRIEF, ...options })
}

export type Working = { sandbox: Sandbox; execution: Execution; agent: FakeAgent }

/** A command that runs in a new sandbox of the scriptable provider, or in one that is given. */
export async function work(
  world: World,
  { sandbox, ...request }: Parameters<World['fleet']['execute']>[1] & { sandbox?: Sandbox } = {},
): Promise<Working> {
  const { fleet, provider } = world
  const where = sandbox ?? (await world.running())
  const { execution } = await fleet.execute(where.id, { command: ['work'], ...request })
  await expect
    .poll(() => provider.instancesOf(where.id).at(-1)?.agents.has(execution.id), { timeout: 20_000 })
    .toBe(true)
  return { sandbox: where, execution, agent: provider.agentOf(where.id, execution.id) }
}

/** All that an execution prints, up to its end. */
export async function bytesOf({ fleet }: World, executionId: string, from = 0): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for await (const { bytes } of fleet.output(executionId, { from })) pieces.push(bytes)
  return Buffer.concat(pieces)
}

export const textOf = async (world: World, executionId: string, from = 0): Promise<string> =>
  (await bytesOf(world, executionId, from)).toString()

/** Once it has ended. */
export async function endOf({ fleet }: World, { id }: { id: string }): Promise<Execution> {
  const { execution } = await fleet.execution(id, { wait: '30s' })
  expect(execution.endedAt).not.toBeNull()
  return execution
}
