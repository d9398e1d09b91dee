import { expect, test } from 'vitest'
import { BackendError } from '../../../src/backends/backend.ts'
import { answer, isAbsent, Refusal, Unreadable } from '../../../src/backends/docker/errors.ts'
import { containerName, parseContainerName, wordOf } from '../../../src/backends/docker/names.ts'
import { CALL, onEngine, setup, wantedOf, wired } from './setup.ts'

const NAME = 'sandman-0a1b2c3d-prod-op_1'
const said = (status: number, text: string, isOwn = true) => new Refusal(status, text, { asked: 'GET /x', isOwn })

test.each([
  ['Docker', `No such container: ${NAME}`, true],
  ['Podman', `no container with name or ID "${NAME}" found: no such container`, true],
  ['the engine, of another one', 'No such container: 1f2e3d', false],
  ['the engine, of a page', 'page not found', false],
  ['the engine, of an image', `No such image: ${NAME}`, false],
])('that there is no such container, as %s says it (%s), counts: %s', (_who, text, counts) => {
  expect(isAbsent(said(404, text), 'container', NAME)).toBe(counts)
  expect(isAbsent(said(404, text, false), 'container', NAME)).toBe(false) // as a gateway says it
  expect(isAbsent(said(500, text), 'container', NAME)).toBe(false)
})

test.each([
  [said(401, 'unauthorized'), 'provider_unauthorized'],
  [said(403, 'forbidden by an authorization plugin'), 'provider_unauthorized'],
  [said(429, 'slow down'), 'rate_limited'],
  [said(500, 'write /var/lib/docker/overlay2/x: no space left on device'), 'quota_exceeded'],
  [said(500, 'Decode(): EOF'), 'sandbox_unreachable'],
  [said(404, 'page not found'), 'sandbox_unreachable'],
  [said(409, 'something else'), 'sandbox_unreachable'],
  [new Unreadable('/info', '<h1>Welcome</h1>'), 'sandbox_unreachable'],
  [Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }), 'sandbox_unreachable'],
  [Object.assign(new Error('aborted'), { code: 'ECONNRESET' }), 'sandbox_unreachable'],
  [Object.assign(new Error('no socket'), { code: 'ENOENT' }), 'sandbox_unreachable'],
])('%s is told as %s', async (error, type) => {
  const failing = answer('do it', CALL, () => Promise.reject(error))
  await expect(failing).rejects.toMatchObject({ name: 'BackendError', type, cause: error })
})

test('a bug is told as it is, and what was given up with its reason', async () => {
  const bug = new TypeError('x is not a function')
  await expect(answer('do it', CALL, () => Promise.reject(bug))).rejects.toBe(bug)
  const reason = new BackendError('overtaken', 'enough')
  const giving = new AbortController()
  const given = answer('do it', giving, async () => {
    giving.abort(reason)
    throw said(500, 'oops')
  })
  await expect(given).rejects.toBe(reason)
})

test('what a container is called says what it has been through, whatever it was called first', () => {
  const sleep = { mode: 'freeze', key: 'op_2', startedAt: '20261117T202734171941235Z' } as const
  for (const base of [NAME, 'by-hand', 'a.b_c-1', 'x.r-y.z'])
    for (const wokenBy of [undefined, 'op_3'])
      for (const slept of [undefined, sleep, { ...sleep, mode: 'checkpoint' as const }]) {
        const name = { base, wokenBy, sleep: slept }
        expect(parseContainerName(containerName(name))).toEqual(name)
      }
  const words = ['op_1', 'a/b', 'a b', '', 'x'.repeat(33), 'ü'].map(wordOf)
  expect(words[0]).toBe('op_1')
  for (const word of words) expect(word).toMatch(/^[\w-]{1,32}$/)
  expect(new Set(words).size).toBe(words.length)
})

onEngine(() => {
  test('an engine that lists nothing, or too much, is not believed against its own word', async () => {
    const bench = await setup()
    const { wire, backend } = await wired(bench)
    const { ref, incarnation } = await bench.create()
    expect(await backend.look(ref, CALL)).toEqual({ is: 'running', incarnation })
    const list = (body: string) =>
      wire.fail({ kind: 'answer', status: 200, type: 'application/json', body }, ({ path }) =>
        path.startsWith('/containers/json'),
      )
    list('[]')
    expect(await backend.look(ref, CALL)).toEqual({ is: 'running', incarnation })
    for (const body of ['{}', 'null', '"x"', '[null]', '[{"Id":1}]', '<h1>Welcome</h1>']) {
      list(body)
      await expect(backend.look(ref, CALL), body).rejects.toMatchObject({ type: 'sandbox_unreachable' })
    }
    const foreign = [{ Id: 'x', Names: ['/y'], State: 'running', Labels: { 'sandman.fleet': 'another' }, Created: 1 }]
    list(JSON.stringify(foreign))
    expect((await backend.lists.instances(undefined, CALL)).items).toEqual([])
  })

  test('an image that is neither there nor to be had makes nothing, and says what to do', async () => {
    const bench = await setup()
    const { wire, backend } = await wired(bench)
    const isPull = ({ path }: { path: string }) => path.startsWith('/images/create')
    const pull = async (status: number, body: string) => {
      wire.fail({ kind: 'answer', status, type: 'application/json', body }, isPull)
      const wanted = wantedOf({ template: 'no/such' })
      const error = await backend.create(wanted, CALL).catch((thrown: unknown) => thrown)
      expect(await bench.backend.find(wanted.sandboxId, CALL)).toEqual([])
      return error
    }
    const denied = 'pull access denied for no/such, repository does not exist or may require authorization'
    expect(await pull(404, JSON.stringify({ message: denied }))).toMatchObject({
      type: 'spec_invalid',
      message: expect.stringContaining('Check `template`'),
    })
    expect(await pull(200, `{"status":"Pulling"}\n${JSON.stringify({ error: 'manifest unknown' })}\n`)).toMatchObject({
      type: 'spec_invalid',
    })
    expect(await pull(500, '{"message":"toomanyrequests: slow down"}')).toMatchObject({ type: 'rate_limited' })
    expect(await pull(500, '{"message":"dial tcp: lookup registry: no such host"}')).toMatchObject({
      type: 'sandbox_unreachable',
    })
  })
})
