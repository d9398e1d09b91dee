import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { BackendError } from '../../../src/backends/backend.ts'
import { type Cluster, openCluster } from '../../../src/backends/kubernetes/cluster.ts'
import { shellIn } from '../../../src/backends/kubernetes/exec.ts'
import { findPod } from '../../../src/backends/kubernetes/pods.ts'
import { startWire } from '../../../src/conformance/index.ts'
import { GATEWAY } from '../../support/kubernetes/faults.ts'
import { call, failure, openFleet, startCluster } from './setup.ts'

const kubernetes = await startCluster()
const wire = await startWire(kubernetes.url)
const EXEC = { resource: 'pods/exec' }
const WAIT = { timeout: 10_000, interval: 20 }

/** A shell in a pod that idles, on the wire or not. */
async function setup(server = kubernetes.url) {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create()
  const { namespace } = kubernetes
  const connection = { server, token: kubernetes.token }
  const opened = await openCluster('kubernetes-pod', { fleet: fleet.name, namespace, connection })
  onTestFinished(async () => {
    wire.heal()
    await opened.close()
  })
  const cluster: Cluster = await opened.find(call())
  const pod = await findPod(cluster, target.name, call())
  if (!pod) throw new Error('there is no pod')
  const folder = path.join(kubernetes.cluster.volumes.folderOfPod(pod.uid), 'volumes', 'workspace')
  return { fleet, target, shell: shellIn(cluster, pod, async () => pod), folder }
}

test('a script says what it says, in bytes, and how it ends', async () => {
  const { shell } = await setup()
  const script = `printf 'one\\000\\377'; echo two >&2; cat; exit 7\n\n`
  expect(await shell.run(script, call())).toEqual({ exitCode: 7, output: `one\0\ufffdtwo\n` })
})

test('a script of any length gets in, whatever it is made of', async () => {
  const { shell } = await setup()
  const text = `${'ü"\'$(x)`\\\n'.repeat(3_000)}end`
  const { output } = await shell.run(`cat <<'EOF'\n${text}\nEOF`, call())
  expect(output).toBe(`${text}\n`)
})

test('an output that nobody reads stops who writes it, and goes on with who does', async () => {
  const { shell, folder } = await setup()
  const script = `i=0; while [ $i -lt 4000 ]; do head -c 65536 /dev/zero; i=$((i+1)); echo $i >progress; done`
  const reading = shell.stream(script, call())
  await reading.next()
  const progress = async () => Number(await readFile(path.join(folder, 'progress'), 'utf8').catch(() => '0'))
  // It has come to a standstill when it is where it was before.
  let before = -1
  await vi.waitFor(
    async () => {
      const now = await progress()
      const isStill = now > 0 && now === before
      before = now
      expect(isStill).toBe(true)
    },
    { timeout: 10_000, interval: 400 },
  )
  expect(before * 65_536).toBeLessThan(32 << 20) // what buffers on the way may take, of 256 MB
  while ((await progress()) <= before) expect((await reading.next()).done).toBe(false)
  await reading.return({ exitCode: 0 })
})

test.each([
  ['403, as without the right to it', { status: 403, body: { kind: 'Status', code: 403 } }, 'provider_unauthorized'],
  ['401', { status: 401, body: 'Unauthorized' }, 'provider_unauthorized'],
  ['429', { status: 429, body: 'slow down' }, 'rate_limited'],
  ['500, as by a node that is not reached', { status: 500, body: 'dial tcp: no route to host' }, 'sandbox_unreachable'],
  ['404 in plain text', GATEWAY.plain404, 'sandbox_unreachable'],
  ['200, and no upgrade', { status: 200, body: '<h1>Welcome</h1>', type: 'text/html' }, 'sandbox_unreachable'],
  ['a reset', 'reset' as const, 'sandbox_unreachable'],
])('an upgrade that is answered with %s: %s', async (_what, fault, type) => {
  const { fleet, target } = await setup()
  kubernetes.failNext(EXEC, fault)
  expect((await failure(fleet.backend.run(target, 'true', call()))).type).toBe(type)
  // And it says nothing of the sandbox.
  expect(await fleet.backend.run(target, 'echo on', call())).toEqual({ exitCode: 0, output: 'on\n' })
})

test('a connection that is given up before it is open is closed', async () => {
  const { shell } = await setup()
  await vi.waitFor(() => expect(kubernetes.openConnections).toBeGreaterThan(0), WAIT)
  const before = kubernetes.openConnections
  kubernetes.failNext(EXEC, 'hang')
  const reason = new Error('given up')
  const abort = new AbortController()
  const running = shell.run('true', abort)
  const failing = expect(running).rejects.toBe(reason)
  await vi.waitFor(() => expect(kubernetes.requests.at(-1)?.resource).toBe('pods/exec'), WAIT)
  abort.abort(reason)
  await failing
  await vi.waitFor(() => expect(kubernetes.openConnections).toBeLessThanOrEqual(before), WAIT)
})

test('one that is given up while it runs is closed, too, and fails with the reason', async () => {
  const { shell } = await setup()
  const reason = new Error('given up')
  const abort = new AbortController()
  const reading = shell.stream('echo begun; sleep 1000', abort)
  await reading.next()
  const before = kubernetes.openConnections
  abort.abort(reason)
  await expect(reading.next()).rejects.toBe(reason)
  await vi.waitFor(() => expect(kubernetes.openConnections).toBeLessThan(before), WAIT)
})

test('what is cut on the way is no end, and says what was heard last', async () => {
  const { shell } = await setup(wire.url)
  const heard: string[] = []
  for (let bytes = 1; ; bytes += 5) {
    wire.fail({ kind: 'cut after', bytes })
    const outcome = await shell.run('echo nearly; sleep 0.05; echo done', call()).catch((error: unknown) => error)
    if (!(outcome instanceof BackendError)) {
      expect(outcome).toEqual({ exitCode: 0, output: 'nearly\ndone\n' })
      break
    }
    expect(outcome.type).toBe('sandbox_unreachable')
    heard.push(outcome.message.split('the last that was heard is: ')[1] ?? '')
  }
  // How much of it comes at once is the network's to say, and the last of it may come with the mark.
  expect(heard.length).toBeGreaterThan(0)
  for (const each of heard) expect('nearly\ndone'.startsWith(each), each).toBe(true)
})

test('a container that ends under a script ends its connection, which says why', async () => {
  const { shell, target } = await setup()
  const reading = shell.stream('echo begun; sleep 1000', call())
  await reading.next()
  await kubernetes.terminateContainer(target.name, 'agent')
  const { type, message } = await failure(reading.next())
  expect(type).toBe('sandbox_unreachable')
  expect(message).toContain('did not come to its end: {')
})
