import { expect, test } from 'vitest'
import { describeIncident } from '../support/describe-world.ts'

describeIncident('V: a poison job was retried for ever', (world) => {
  test.each([
    ['has a payload that cannot be read', { operation: 'op_1' }],
    ['names an operation that nobody has asked for', { operationId: `op_${'0'.repeat(26)}` }],
  ])('a job that %s fails at once, unretried and visible, and holds up nothing', async (_what, payload) => {
    const { eye } = world()
    const queue = (await eye.all()).find(({ name }) => name === 'pause')?.queue
    if (!queue) throw new Error('there is no such queue')
    const poison = await queue.add('pause', payload, { attempts: 5, backoff: { type: 'fixed', delay: 1 } })
    await expect
      .poll(async () => (await queue.getJob(poison.id as string))?.getState(), { timeout: 10_000 })
      .toBe('failed')
    const failed = await queue.getJob(poison.id as string)
    expect(failed?.attemptsMade).toBe(1)
    expect(failed?.failedReason).toMatch(/cannot be read|There is no operation op_0/)
    expect((await world().suspended()).state).toBe('suspended')
  })
})
