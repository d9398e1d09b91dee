import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { Exec } from '@kubernetes/client-node'
import { describe, expect, test } from 'vitest'
import { tooManyRequests } from '../../support/kubernetes/api-error.ts'
import { apiFault, GATEWAY, SERVER } from '../../support/kubernetes/faults.ts'
import { exec, follow, refusal, setup, sh } from './fake-setup.ts'

const LOG = '/api/v1/namespaces/agents/pods/a/log'
const second = (iso: string) => BigInt(Date.parse(iso)) * 1_000_000n

/** The body of an answer that goes on. */
function reading(response: Response) {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  let said = ''
  const next = async () => {
    const piece = await reader.read()
    said += Buffer.from(piece.value ?? []).toString()
    return piece
  }
  const until = async (wanted: string) => {
    while (said.length < wanted.length && !(await next()).done);
    expect(said).toBe(wanted)
  }
  return { next, until, cancel: () => reader.cancel() }
}

describe('a log', () => {
  test('has a time before each line, and one only before a line that came in parts', async () => {
    const { run, cluster, fetch } = await setup()
    await run('a', 'sleep 1000')
    const at = second('2026-01-02T03:04:05Z')
    cluster.appendLog('a', 'agent', 'one', { atNs: at + 7n })
    cluster.appendLog('a', 'agent', 'tw', { atNs: at + 8n, isPartial: true })
    cluster.appendLog('a', 'agent', 'o', { atNs: at + 9n })
    cluster.appendLog('a', 'agent', 'three', { atNs: at + 9n })
    const read = async (query: string) => (await fetch(`${LOG}?${query}`)).text()
    expect(await read('timestamps=true')).toBe(
      '2026-01-02T03:04:05.000000007Z one\n2026-01-02T03:04:05.000000008Z two\n2026-01-02T03:04:05.000000009Z three\n',
    )
    expect(await read('')).toBe('one\ntwo\nthree\n')
    // Parts are lines for who counts them.
    expect(await read('tailLines=2')).toBe('o\nthree\n')
    expect(await read('tailLines=0')).toBe('')
    expect(await read('limitBytes=6')).toBe('one\ntw')
    expect(await read('timestamps=true&limitBytes=37')).toBe('2026-01-02T03:04:05.000000007Z one\n20')
  })

  test('begins at a whole second, with all of it', async () => {
    const { run, cluster, fetch } = await setup()
    await run('a', 'sleep 1000')
    const at = second('2026-01-02T03:04:05Z')
    const offsets = { before: -1n, early: 0n, late: 900_000_000n, next: 1_000_000_000n }
    for (const [line, offset] of Object.entries(offsets)) cluster.appendLog('a', 'agent', line, { atNs: at + offset })
    const read = async (query: string) => (await fetch(`${LOG}?${query}`)).text()
    expect(await read('sinceTime=2026-01-02T03:04:05.950Z')).toBe('early\nlate\nnext\n')
    expect(await read('sinceTime=2026-01-02T03:04:06Z')).toBe('next\n')
    expect((await fetch(`${LOG}?sinceTime=yesterday`)).status).toBe(400)
  })

  test('is followed to the end of its container, and can be read after it', async () => {
    const { run, config, cluster, core, namespace } = await setup()
    await run('a', 'echo one; sleep 0.05; echo two; echo oh >&2')
    const log = await follow(config, 'a')
    await log.ended
    const all = log.text()
    // Of two outputs that are written at once, either may be first.
    expect(all.split('\n').toSorted()).toEqual(['', 'oh', 'one', 'two'])
    await cluster.when('pods', 'a', (pod) => pod?.status?.phase === 'Succeeded')
    const again = await follow(config, 'a')
    await again.ended
    expect(again.text()).toBe(all)
    await core.deleteNamespacedPod({ name: 'a', namespace })
    expect(await refusal(core.readNamespacedPodLog({ name: 'a', namespace }))).toMatchObject({ code: 404 })
  })

  test('is refused in the server’s own words', async () => {
    const { create, cluster, core, namespace } = await setup()
    await create('a', { containers: [sh('agent', 'sleep 1000'), sh('tools', 'sleep 1000')] })
    await cluster.when('pods', 'a', (pod) => pod?.status?.phase === 'Running')
    const said = async (query: { container?: string; previous?: boolean }) => {
      const { code, message } = await refusal(core.readNamespacedPodLog({ name: 'a', namespace, ...query }))
      return `${code} ${message}`
    }
    expect(await said({})).toBe('400 a container name must be specified for pod a, choose one of: [agent tools]')
    expect(await said({ container: 'x' })).toBe('400 container x is not valid for pod a')
    expect(await said({ container: 'agent', previous: true })).toBe(
      '400 previous terminated container "agent" in pod "a" not found',
    )
  })

  test('is cut, and that means nothing', async () => {
    const { run, cluster, fetch } = await setup()
    await run('a', 'sleep 1000')
    for (const line of ['one', 'two', 'three']) cluster.appendLog('a', 'agent', line)
    const read = (query = 'follow=true') => fetch(`${LOG}?${query}`)
    cluster.cutLogs('end', { afterBytes: 6, times: 2 })
    expect(await (await read()).text()).toBe('one\ntw')
    expect(await (await read()).text()).toBe('one\ntw')
    cluster.cutLogs('reset', { afterBytes: 4 })
    await expect(read().then((response) => response.text())).rejects.toThrow()
    const open = reading(await read())
    await open.until('one\ntwo\nthree\n')
    cluster.cutLogs('mid-line')
    cluster.appendLog('a', 'agent', 'fourth')
    await open.until('one\ntwo\nthree\nfour')
    expect((await open.next()).done).toBe(true)
    const silent = reading(await read())
    await silent.until('one\ntwo\nthree\nfourth\n')
    cluster.cutLogs('stall')
    cluster.appendLog('a', 'agent', 'unheard')
    expect(await Promise.race([silent.next(), sleep(50, 'nothing')])).toBe('nothing')
    await silent.cancel()
  })
})

describe('a command', () => {
  test('has outputs, an end and an input of its own', async () => {
    const { run, config, cluster } = await setup()
    await run('a', 'sleep 1000')
    expect(await exec(config, 'a', 'echo out; echo oh >&2; exit 3')).toMatchObject({
      stdout: 'out\n',
      stderr: 'oh\n',
      status: {
        status: 'Failure',
        reason: 'NonZeroExitCode',
        details: { causes: [{ reason: 'ExitCode', message: '3' }] },
      },
    })
    const told = await exec(config, 'a', 'cat', 'x'.repeat(300_000))
    expect(told.stdout).toHaveLength(300_000)
    expect(told.status).toEqual({ metadata: {}, status: 'Success' })
    expect(cluster.requests.at(-1)).toMatchObject({
      verb: 'get',
      resource: 'pods/exec',
      name: 'a',
      isUpgrade: true,
      status: 101,
    })
  })

  test('is run over the older protocol too, and told nothing of its end when it is cut', async () => {
    const { run, config, cluster, namespace } = await setup()
    await run('a', 'sleep 1000')
    cluster.execProtocols = ['v4.channel.k8s.io']
    const { socket, ...told } = await exec(config, 'a', 'echo out; exit 2')
    expect(socket.protocol).toBe('v4.channel.k8s.io')
    expect(told).toMatchObject({ stdout: 'out\n', status: { details: { causes: [{ message: '2' }] } } })
    for (const how of ['reset', 'close'] as const) {
      const statuses: unknown[] = []
      const command = ['sleep', '1000']
      const told = (status: unknown) => statuses.push(status)
      const cut = await new Exec(config).exec(
        namespace,
        'a',
        'agent',
        command,
        new PassThrough(),
        null,
        null,
        false,
        told,
      )
      cluster.cutExecs(how)
      await once(cut, 'close')
      expect(statuses).toEqual([])
    }
  })

  test('is refused before there is a socket', async () => {
    const { run, config, cluster, core, namespace } = await setup()
    await run('a', 'sleep 1000')
    const said = (name: string, container: string) =>
      new Exec(config).exec(namespace, name, container, ['true'], new PassThrough(), null, null, false).then(
        () => 'opened',
        (error: { message: string }) => error.message,
      )
    expect(await said('x', 'agent')).toBe('Unexpected server response: 404')
    expect(await said('a', 'x')).toBe('Unexpected server response: 400')
    cluster.allow([{ apiGroups: [''], resources: ['pods/exec'], verbs: ['create'] }])
    expect(await said('a', 'agent')).toBe('Unexpected server response: 403')
    cluster.allow(undefined)
    cluster.failNext({ resource: 'pods/exec' }, { status: 503 })
    expect(await said('a', 'agent')).toBe('Unexpected server response: 503')
    cluster.failNext({ resource: 'pods/exec' }, 'reset')
    expect(await said('a', 'agent')).toMatch(/ECONNRESET|socket hang up/)
    await cluster.terminateContainer('a', 'agent')
    expect(await said('a', 'agent')).toBe('Unexpected server response: 500')
    expect(await refusal(core.connectPostNamespacedPodExec({ name: 'a', namespace, command: 'true' }))).toMatchObject({
      code: 400,
      message: 'Upgrade request required',
    })
    expect(cluster.requests.at(-1)).toMatchObject({ verb: 'create', resource: 'pods/exec', isUpgrade: false })
  })

  test('lives on when its socket is closed', async () => {
    const { run, config, namespace } = await setup()
    await run('a', 'sleep 1000')
    const stdout = new PassThrough()
    const script = 'echo begun; cat; sleep 0.05; echo alive > "$HOME/mark"; sleep 1000'
    const command = ['sh', '-c', script]
    const stdin = new PassThrough()
    const socket = await new Exec(config).exec(namespace, 'a', 'agent', command, stdout, null, stdin, false)
    await once(stdout, 'data')
    socket.close()
    // Its input has ended with the socket, and it has gone on behind that.
    await expect.poll(async () => (await exec(config, 'a', 'cat "$HOME/mark"')).stdout).toBe('alive\n')
  })

  test('writes no faster than it is read', async () => {
    const { run, config, namespace } = await setup()
    await run('a', 'sleep 1000')
    const script = 'n=0; while :; do head -c 1000000 /dev/zero; n=$((n+1)); echo $n > "$HOME/written"; done'
    const command = ['sh', '-c', script]
    const socket = await new Exec(config).exec(namespace, 'a', 'agent', command, new PassThrough(), null, null, false)
    socket.pause()
    const written = async () => Number((await exec(config, 'a', 'cat "$HOME/written" 2>/dev/null')).stdout)
    let [before, now] = [-1, 0]
    while (before !== now) {
      await sleep(100)
      ;[before, now] = [now, await written()]
    }
    expect(now).toBeLessThan(50)
    socket.terminate()
  })

  test('in a container that dies has ended with it', async () => {
    const { run, config, cluster } = await setup()
    await run('a', 'sleep 1000')
    const told = exec(config, 'a', 'sleep 1000')
    await expect.poll(() => cluster.requests.at(-1)?.status).toBe(101)
    await expect.poll(() => cluster.pidsOf('a').length).toBeGreaterThan(1)
    await cluster.terminateContainer('a', 'agent')
    expect((await told).status.details?.causes).toEqual([{ reason: 'ExitCode', message: '137' }])
  })
})

describe('a request', () => {
  test('fails as it was scripted, as often as it was', async () => {
    const { core, namespace, cluster, create } = await setup({ schedulable: false })
    const read = () => core.readNamespacedPod({ name: 'a', namespace })
    await create('a')
    cluster.failNext({ method: 'GET', path: /pods\/a$/ }, GATEWAY.plain404)
    cluster.failNext(
      { verb: 'get', resource: 'pods' },
      { status: 500, body: { kind: 'Status', code: 500, message: 'oh' } },
      2,
    )
    expect(await refusal(read())).toEqual({ code: 404, message: '404 page not found\n' })
    expect(await refusal(read())).toMatchObject({ code: 500, message: 'oh' })
    await core.listNamespacedPod({ namespace })
    expect(await refusal(read())).toMatchObject({ code: 500 })
    cluster.failNext({}, apiFault(tooManyRequests(3)))
    await expect(read()).rejects.toMatchObject({ code: 429, headers: { 'retry-after': '3' } })
    cluster.failNext({}, SERVER.unavailable)
    expect(await refusal(read())).toMatchObject({ code: 503, reason: 'ServiceUnavailable' })
    cluster.failNext({}, 'reset')
    await expect(read()).rejects.toThrow('fetch failed')
    cluster.failNext({}, 'cut answer')
    await expect(read()).rejects.toThrow()
    cluster.failNext({}, GATEWAY.untyped200)
    await expect(read()).rejects.toThrow('No Content-Type')
    cluster.failNext({}, { delayMs: 50 })
    const began = performance.now()
    await read()
    expect(performance.now() - began).toBeGreaterThan(45)
  })

  test('may be done though its answer is lost, and not be done though it is waited for', async () => {
    const { create, cluster, fetch } = await setup({ schedulable: false })
    cluster.failNext({ verb: 'create' }, 'lost answer')
    await expect(create('a')).rejects.toThrow('fetch failed')
    expect(cluster.get('pods', 'a')).toBeDefined()
    cluster.failNext({ verb: 'list' }, 'hang')
    const signal = AbortSignal.timeout(50)
    await expect(fetch('/api/v1/namespaces/agents/pods', { signal })).rejects.toThrow('timeout')
    const gate = cluster.holdAt('create pods')
    const held = create('b')
    await gate.entered(1)
    expect(cluster.get('pods', 'b')).toBeUndefined()
    gate.open()
    await held
    const answers = cluster.holdAnswersOf('create pods')
    const unanswered = create('c')
    await answers.entered(1)
    expect(cluster.get('pods', 'c')).toBeDefined()
    answers.open()
    await unanswered
  })

  test('is remembered, and leaves no connection behind when all is over', async () => {
    const { create, cluster, core, namespace } = await setup({ schedulable: false })
    await create('a')
    await core.listNamespacedPod({ namespace, labelSelector: 'x=y' })
    await core.readNamespace({ name: namespace })
    expect(cluster.requests.map(({ verb, resource, name }) => `${verb} ${resource} ${name}`)).toEqual([
      'create pods ',
      'list pods ',
      'get namespaces agents',
    ])
    expect(cluster.requests[1]?.query.get('labelSelector')).toBe('x=y')
    expect(cluster.requests.count('create', 'pods')).toBe(1)
    cluster.requests.clear()
    expect(cluster.requests).toHaveLength(0)
    expect(cluster.openConnections).toBeGreaterThan(0)
    await cluster.stop()
    expect(cluster.openConnections).toBe(0)
  })
})
