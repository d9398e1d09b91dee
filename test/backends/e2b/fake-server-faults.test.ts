import { Sandbox } from 'e2b'
import { describe, expect, test } from 'vitest'
import {
  apiError,
  type Fault,
  forbidden,
  GATEWAY,
  noCapacity,
  nodeBusy,
  placementTimeout,
  rateLimited,
  unauthorized,
} from '../../support/e2b/faults.ts'
import { failure, setup, startCounting, stateOf } from './fake-setup.ts'

describe('a status', () => {
  test.each<[string, Fault, string]>([
    ['a 404 of a gateway', GATEWAY.plain404, 'SandboxError'],
    ['a 404 without a body', GATEWAY.empty404, 'SandboxError'],
    ['a 404 without a code', GATEWAY.codeless404, 'SandboxError'],
    ['a 404 of the API', apiError(404, 'no'), 'SandboxNotFoundError'],
    ['a 500 in plain text', GATEWAY.internalError, 'SandboxError'],
    ['a 502 as a page', GATEWAY.html502, 'SandboxError'],
    ['a 503 of a gateway', GATEWAY.bare503, 'ServiceBusyError'],
    ['a 503 of the API', nodeBusy, 'ServiceBusyError'],
    ['a 503 for want of room', noCapacity, 'ServiceBusyError'],
    ['a 504 with a code of its own', placementTimeout, 'SandboxError'],
    ['a 429 without a time', GATEWAY.bare429, 'RateLimitError'],
    ['a 401', unauthorized, 'AuthenticationError'],
    ['a 403', forbidden, 'SandboxError'],
  ])('%s is what the SDK makes of it, and changes nothing', async (_name, fault, error) => {
    const { e2b, create } = await setup()
    const sandbox = await create()
    e2b.next('pause', fault)
    expect(await failure(sandbox.pause())).toMatch(new RegExp(`^${error}: `))
    expect([e2b.stateOf(sandbox.sandboxId), e2b.requests.at(-1)?.isPerformed]).toEqual(['running', false])
    expect(await sandbox.pause()).toBe(true)
  })

  test('a 429 with a time is waited for, and one without is not', async () => {
    const { e2b, at, create } = await setup()
    const { sandboxId } = await create()
    e2b.next('get', rateLimited(0), rateLimited())
    expect(await failure(Sandbox.getInfo(sandboxId, { ...at, retries: 3 }))).toContain('RateLimitError')
    expect(e2b.count('get')).toBe(2)
  })
})

describe('an answer that does not come', () => {
  test.each<[string, Fault, string]>([
    ['is cut off', { kind: 'cut', performed: true }, 'TypeError: fetch failed'],
    ['is reset', { kind: 'reset', performed: true }, 'TypeError: fetch failed'],
    ['is a 500', { ...apiError(500, 'oh'), performed: true }, 'SandboxError: 500'],
  ])('%s, when it was done and when it was not', async (_name, fault, error) => {
    const { e2b, create } = await setup()
    const sandbox = await create()
    e2b.next('pause', { ...fault, performed: false } as Fault, fault)
    expect(await failure(sandbox.pause())).toContain(error)
    expect(e2b.stateOf(sandbox.sandboxId)).toBe('running')
    expect(await failure(sandbox.pause())).toContain(error)
    expect(e2b.stateOf(sandbox.sandboxId)).toBe('paused')
  })

  test('hangs until nobody waits for it any more, when it was done and when it was not', async () => {
    const { e2b, create } = await setup()
    const sandbox = await create()
    for (const performed of [false, true]) {
      e2b.next('pause', { kind: 'hang', performed })
      const caller = new AbortController()
      const paused = failure(sandbox.pause({ signal: caller.signal }))
      await expect.poll(() => e2b.requests.at(-1)).toMatchObject({ route: 'pause', isPerformed: performed })
      if (performed) await expect.poll(() => e2b.stateOf(sandbox.sandboxId)).toBe('paused')
      else expect(e2b.stateOf(sandbox.sandboxId)).toBe('running')
      caller.abort()
      expect(await paused).toContain('aborted')
      expect(e2b.requests.at(-1)?.status).toBeUndefined()
    }
  })

  test('may only be late', async () => {
    const { e2b, at, create } = await setup()
    e2b.always('create', { kind: 'lag', ms: 20 })
    const { sandboxId } = await create()
    e2b.heal()
    expect(await Sandbox.kill(sandboxId, at)).toBe(true)
  })
})

describe('a lie', () => {
  test('says that it was done, and nothing was', async () => {
    const { e2b, at, create } = await setup()
    const sandbox = await create()
    for (const route of ['pause', 'kill', 'timeout', 'snapshot', 'create', 'signal', 'start'] as const)
      e2b.next(route, { kind: 'lie' })
    expect(await sandbox.pause()).toBe(true)
    expect(await sandbox.kill()).toBe(true)
    await sandbox.setTimeout(1)
    expect(await Sandbox.deleteSnapshot((await sandbox.createSnapshot()).snapshotId, at)).toBe(false)
    expect(await (await create()).isRunning()).toBe(false)
    expect(await sandbox.commands.kill(1)).toBe(true)
    expect(await sandbox.commands.run('echo never')).toMatchObject({ exitCode: 0, stdout: '' })
    expect(e2b.listed()).toMatchObject([{ sandboxID: sandbox.sandboxId, state: 'running' }])
  })

  test('of a list shows nothing, a part, or what is long gone', async () => {
    const { e2b, create, listAll } = await setup()
    const [first, second] = [await create(), await create()]
    const old = e2b.listed()
    await first.kill()
    e2b.next(
      'list',
      { kind: 'list', shows: () => [] },
      { kind: 'list', shows: (all) => all.slice(1) },
      { kind: 'list', shows: () => old },
    )
    expect([await listAll(), await listAll()]).toEqual([[], []])
    expect(await listAll()).toMatchObject([{ sandboxId: second.sandboxId }, { sandboxId: first.sandboxId }])
    expect(await listAll()).toMatchObject([{ sandboxId: second.sandboxId }])
  })
})

describe('a pause that goes wrong', () => {
  test('loses the sandbox, or only what happened since the pause before it', async () => {
    const { e2b, create, info } = await setup()
    const [young, old] = [await create(), await create()]
    await old.pause()
    await old.connect()
    e2b.always('pause', { kind: 'lost' })
    for (const sandbox of [young, old]) expect(await failure(sandbox.pause())).toContain('500: Error pausing sandbox')
    expect(await failure(info(young.sandboxId))).toContain('SandboxNotFoundError')
    expect(await info(old.sandboxId)).toMatchObject({ state: 'paused' })
  })

  test('says that it worked, and has kept nothing', async () => {
    const { e2b, create, info } = await setup()
    const sandbox = await create()
    e2b.next('pause', { kind: 'doomed' })
    expect(await sandbox.pause()).toBe(true)
    expect(await info(sandbox.sandboxId)).toMatchObject({ state: 'paused' })
    await e2b.loseUploads()
    expect(await failure(sandbox.connect())).toContain('SandboxNotFoundError')
  })
})

describe('a sandbox', () => {
  test('whose machine has died is not there, and its proxy says so', async () => {
    const { e2b, create } = await setup()
    const sandbox = await create()
    const counting = await startCounting(sandbox)
    await e2b.lose(sandbox.sandboxId)
    await expect(counting.wait()).rejects.toThrow('killed or reached its end of life')
    expect(await sandbox.isRunning()).toBe(false)
    expect(await failure(sandbox.commands.list())).toContain('TimeoutError')
    expect(await failure(sandbox.commands.run('true'))).toContain('SandboxNotFoundError')
    expect(stateOf(counting.pid)).toBeUndefined()
  })

  test('that has no memory kills what runs in it, and runs on', async () => {
    const { e2b, create } = await setup()
    const sandbox = await create()
    const counting = await startCounting(sandbox)
    await e2b.starve(sandbox.sandboxId)
    await expect(counting.wait()).rejects.toThrow('signal: killed')
    await expect(sandbox.commands.run('sleep 10')).rejects.toThrow('signal: killed')
    e2b.heal()
    expect(await sandbox.commands.run('echo again')).toMatchObject({ stdout: 'again\n' })
  })
})

describe('a stream of output', () => {
  test.each([
    ['reset', /^SandboxError: .*terminated/],
    ['cut', /^SandboxError: .*terminated/],
    ['end', /^SandboxError: Process exited without a result/],
    ['short', /^SandboxError: .*missing EndStreamResponse/],
  ] as const)('breaks after so many bytes: %s', async (how, error) => {
    const { e2b, create } = await setup()
    const sandbox = await create()
    e2b.next('start', { kind: 'stream', afterBytes: 7, how })
    const handle = await sandbox.commands.run('echo 0123456789; sleep 100', { background: true })
    const broken = await failure(handle.wait())
    expect([handle.stdout, broken]).toEqual(['0123456', expect.stringMatching(error)])
    expect(await sandbox.commands.kill(handle.pid)).toBe(true)
  })

  test('falls silent, and the process goes on', async () => {
    const { e2b, create } = await setup()
    const sandbox = await create()
    e2b.next('attach', { kind: 'stream', afterBytes: 0, how: 'hang' })
    const counting = await startCounting(sandbox)
    const silent = await sandbox.commands.connect(counting.pid)
    const before = counting.stdout.length
    await expect.poll(() => counting.stdout.length).toBeGreaterThan(before + 10)
    expect(silent.stdout).toBe('')
    e2b.cutStreams(sandbox.sandboxId)
    expect(await failure(silent.wait())).toContain('terminated')
  })
})

describe('a call to a sandbox', () => {
  // What could not be reached at all is, to who starts something, a sandbox that is gone: also where it is only a rate limit.
  test.each<[string, Fault, string, string]>([
    ['of the protocol', { kind: 'rpc', code: 'resource_exhausted' }, 'RateLimitError', 'RateLimitError'],
    ['that is internal', { kind: 'rpc', code: 'internal' }, 'SandboxError', 'SandboxError'],
    ['of who is not known', { kind: 'rpc', code: 'unauthenticated' }, 'AuthenticationError', 'AuthenticationError'],
    ['that is a bare 429', GATEWAY.bare429, 'TimeoutError', 'SandboxNotFoundError'],
    ['that is a 502 of a gateway', GATEWAY.html502, 'TimeoutError', 'SandboxNotFoundError'],
    [
      'that is a reset',
      { kind: 'reset', performed: false },
      'SandboxError: 2: [unknown]',
      'SandboxError: 2: [unknown]',
    ],
  ])('fails with an error %s', async (_name, fault, listing, starting) => {
    const { e2b, create } = await setup()
    const sandbox = await create()
    for (const route of ['listProcesses', 'start'] as const) e2b.next(route, fault)
    expect(await failure(sandbox.commands.list())).toContain(listing)
    expect(await failure(sandbox.commands.run('true'))).toContain(starting)
    expect(await sandbox.commands.run('echo fine')).toMatchObject({ stdout: 'fine\n' })
  })

  test('may have started a process whose pid nobody was told', async () => {
    const { e2b, create } = await setup()
    const sandbox = await create()
    e2b.next('start', { kind: 'cut', performed: true })
    await failure(sandbox.commands.run('yes', { timeoutMs: 0 }))
    expect(await sandbox.commands.list()).toMatchObject([{ args: ['-l', '-c', 'yes'] }])
  })
})
