import { expect, test } from 'vitest'
import { apiError } from '../../support/agentuity/faults.ts'
import { agentuity, CALL, fails, playAgentuity, setup } from './setup.ts'

await playAgentuity()

test('where an output is read may be told late', async () => {
  const { backend, create } = await setup()
  const target = await create()
  agentuity.cloud.jobsBeginLate = true
  expect(await backend.run(target, 'echo hi', CALL)).toEqual({ exitCode: 0, output: 'hi\n' })
})

test.each([0, 10, 50])(
  'an output that ends too early, after %i bytes, is read again, and is not taken for all',
  async (afterBytes) => {
    const { backend, create } = await setup()
    const target = await create()
    agentuity.next('stream', { kind: 'stream', afterBytes, how: 'end' })
    expect(await backend.run(target, 'echo one; echo two; exit 3', CALL)).toEqual({ exitCode: 3, output: 'one\ntwo\n' })
  },
)

test('an output that never comes to its end is not claimed', async () => {
  const { backend, create } = await setup()
  const target = await create()
  agentuity.always('stream', { kind: 'stream', afterBytes: 5, how: 'end' })
  await expect(backend.run(target, 'echo hi', CALL)).rejects.toMatchObject(
    fails('sandbox_unreachable', 'not all of its'),
  )
})

test.each([
  ['a stream that is cut', 'stream', { kind: 'stream', afterBytes: 3, how: 'reset' }],
  ['a stream that is not given', 'stream', { kind: 'status', status: 502, body: 'bad gateway' }],
  ['a job that fails to begin', 'createJob', apiError(500, 'Internal Server Error')],
  ['a job that is refused', 'createJob', apiError(409, 'Sandbox is busy', 'SANDBOX_BUSY')],
  ['a sandbox that is said not to be there', 'createJob', apiError(404, 'Sandbox not found', 'SANDBOX_NOT_FOUND')],
] as const)('%s is not the end of it', async (_what, route, fault) => {
  const { backend, create } = await setup()
  const target = await create()
  agentuity.next(route, fault)
  await expect(backend.run(target, 'echo hi', CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
  expect(await backend.run(target, 'echo hi', CALL)).toMatchObject({ output: 'hi\n' })
})

test('what falls asleep while a command runs is said to sleep, although its job is still said to run', async () => {
  const { backend, create } = await setup()
  const target = await create()
  const running = backend.run(target, 'touch begun; sleep 1000', CALL)
  const failing = expect(running).rejects.toMatchObject(fails('overtaken', 'sleeps'))
  await expect.poll(() => backend.run(target, 'ls begun', CALL)).toMatchObject({ exitCode: 0 })
  await agentuity.evacuate(target.ref)
  await failing
})

test('a command that is given up when its sandbox has fallen asleep does not wake it', async () => {
  const { backend, create } = await setup()
  const target = await create()
  const giving = new AbortController()
  const running = backend.run(target, 'touch begun; sleep 1000', { signal: giving.signal })
  const failing = expect(running).rejects.toThrow('enough')
  await expect.poll(() => backend.run(target, 'ls begun', CALL)).toMatchObject({ exitCode: 0 })
  agentuity.cloud.jobsWake = true
  const looking = agentuity.holdOnceAt('events')
  await agentuity.evacuate(target.ref)
  await looking.entered(1)
  const jobs = agentuity.count('createJob', target.ref)
  const looks = agentuity.count('get', target.ref)
  giving.abort(new Error('enough'))
  looking.open()
  await failing
  // Whatever it still does, it does after a look, or without one.
  await expect
    .poll(() => agentuity.count('get', target.ref) - looks + agentuity.count('createJob', target.ref) - jobs)
    .toBeGreaterThan(0)
  expect([agentuity.count('createJob', target.ref), agentuity.statusOf(target.ref)]).toEqual([jobs, 'suspended'])
})

test('an execution of somebody else keeps nobody out', async () => {
  const { backend, create } = await setup()
  const target = await create()
  const { started } = await agentuity.cloud.execute(agentuity.cloud.find(target.ref), ['sleep', '1000'])
  expect(await backend.look(target.ref, CALL)).toEqual({ is: 'running', incarnation: target.incarnation })
  expect(await backend.run(target, 'echo hi', CALL)).toMatchObject({ output: 'hi\n' })
  started.kill()
})

test('who leaves a stream ends what has copied it', async () => {
  const { backend, create, start } = await setup()
  const target = await create()
  const agent = await start(target, ['sh', '-c', 'echo one; exec sleep 1000'])
  for await (const { bytes } of backend.attach(agent, undefined, CALL)) if (bytes.length > 0) break
  await expect.poll(() => agentuity.count('stopJob', target.ref)).toBe(1)
})

test('an output that ends before its agent says that it is not the last of it', async () => {
  const { backend, create, start } = await setup()
  const target = await create()
  const agent = await start(target, ['sh', '-c', 'echo one; exec sleep 1000'])
  agentuity.next('stream', { kind: 'stream', afterBytes: 46, how: 'end' })
  const listening = async () => {
    for await (const { isLast } of backend.attach(agent, undefined, CALL)) expect(isLast).not.toBe(true)
  }
  await expect(listening()).rejects.toMatchObject(fails('sandbox_unreachable'))
})

test('of an agent in what was terminated it is said that its sandbox has expired', async () => {
  const { backend, create, start } = await setup()
  const target = await create()
  const agent = await start(target, ['sleep', '1000'])
  await agentuity.terminate(target.ref)
  await expect(backend.agentStatus(agent, CALL)).rejects.toMatchObject(fails('sandbox_expired', '137'))
})
