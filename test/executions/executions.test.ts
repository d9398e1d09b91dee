import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Execution } from '../../src/index.ts'
import { describeStores } from '../support/stores.ts'
import { createWorld, QUICK, type World } from '../support/world.ts'

const LONG = { wait: '30s' }

describeStores('executions', (kind) => {
  let world: World
  beforeAll(async () => {
    world = await createWorld(kind)
    await world.startWorker()
  })
  afterEach(async () => {
    world.provider.becomeHonest()
    await world.expectInvariants()
  })
  afterAll(() => world.end())

  /** All that was printed, up to the end. */
  async function textOf({ id }: Execution, from = 0): Promise<string> {
    const pieces: Uint8Array[] = []
    for await (const { bytes } of world.fleet.output(id, { from })) pieces.push(bytes)
    return Buffer.concat(pieces).toString()
  }

  async function start(request: Parameters<World['fleet']['execute']>[1] = {}) {
    const { fleet, provider } = world
    const sandbox = await world.running({ agent: { command: ['agent'] } })
    const { execution } = await fleet.execute(sandbox.id, { command: ['work'], ...request })
    await expect.poll(async () => (await fleet.execution(execution.id)).execution.status).toBe('running')
    const key = request?.command === undefined && 'command' in (request ?? {}) ? '' : execution.id
    await expect.poll(() => provider.instancesOf(sandbox.id)[0]?.agents.has(key)).toBe(true)
    return { sandbox, execution, agent: provider.agentOf(sandbox.id, key) }
  }

  test('smoke', async () => {
    const { execution, agent } = await start()
    agent.write('hello\n')
    agent.write('world\n')
    agent.exit()
    const { execution: ended } = await world.fleet.execution(execution.id, LONG)
    expect(ended).toMatchObject({ status: 'succeeded', reason: 'completed', exitCode: 0, outputBytes: 12 })
    expect(await textOf(ended)).toBe('hello\nworld\n')
  })

  test('smoke suspended', async () => {
    world.provider.starts = (agent) => {
      agent.write('hi')
      agent.exit({ exitCode: 3 })
    }
    const { id } = await world.suspended()
    const { execution } = await world.fleet.execute(id, { command: ['x'], ...LONG })
    expect(execution).toMatchObject({ status: 'failed', reason: 'error', exitCode: 3 })
    expect(await textOf(execution)).toBe('hi')
  })
})
