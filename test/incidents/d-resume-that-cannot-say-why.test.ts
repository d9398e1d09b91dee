import { expect, test } from 'vitest'
import { resumeQueue } from '../../src/queues/resume.ts'
import { describeIncident } from '../support/describe-world.ts'
import { IMPATIENT } from '../support/world.ts'

const PREVIEWED = { wake: { commands: ['pkill vite', 'vite &'], previewPort: 5173 } }

describeIncident(
  'D: resume that cannot say why',
  (world) => {
    test('it sets the time-to-live, ends what lingers, probes, runs the hooks in order, and returns a preview that answers', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().suspended(PREVIEWED)
      const before = provider.performed.length
      const { operation, sandbox } = await fleet.resume(id, { wait: '30s' })
      expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      expect((await fetch(sandbox.previewUrl as string)).status).toBe(200)

      const calls = provider.performed.slice(before).filter(({ ref }) => ref === providerRef)
      expect(calls.map(({ method, body }) => (method === 'run' ? String(body.command).slice(0, 10) : method))).toEqual([
        'look',
        'resume',
        'look',
        'lease',
        'look', // the time-to-live, read back
        'endLingering',
        'f=.sandman', // the probe
        'pkill vite',
        'vite &',
      ])
    })

    test('a preview that does not answer is unreachable; the sandbox is asleep again, so that a retry is a new try', async () => {
      const { fleet, provider } = world()
      const { id, checkpoint } = await world().suspended(PREVIEWED)
      provider.previewStatus = 502
      const { operation, sandbox } = await fleet.resume(id, { wait: '60s' })
      expect(operation).toMatchObject({
        status: 'failed',
        attempt: resumeQueue.attemptsMax,
        error: { errorType: 'sandbox_unreachable', retryable: true },
      })
      expect(operation.error?.message).toMatch(/its preview http.* does not answer: status 502/)
      expect(sandbox).toMatchObject({ state: 'suspended', checkpoint: { status: 'ready' }, previewUrl: null })
      expect(sandbox.checkpoint?.id).not.toBe(checkpoint?.id)
      expect(provider.instancesOf(id)).toMatchObject([{ state: 'suspended' }])

      provider.previewStatus = 200
      const retried = await fleet.resume(id, { wait: '30s' })
      expect(retried.operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      expect(retried.sandbox.previewUrl).toContain('/preview/')
    })

    test('a sandbox whose hooks are broken can be woken without them, to be mended', async () => {
      const { fleet, provider } = world()
      const { id } = await world().suspended(PREVIEWED)
      provider.runs = (command) =>
        command.includes('awake') ? { exitCode: 0, output: 'awake' } : { exitCode: 1, output: 'Error: no such module' }
      const failed = await fleet.resume(id, { wait: '60s' })
      expect(failed.operation.error?.message).toMatch(
        /its wake command "pkill vite" ended with exit code 1.*no such module/,
      )
      expect(failed.sandbox.state).toBe('suspended')
      const { operation, sandbox } = await fleet.resume(id, { skipHooks: true, wait: '30s' })
      expect(operation).toMatchObject({ status: 'succeeded' })
      expect(sandbox).toMatchObject({ state: 'running', previewUrl: null })
    })

    test('one that only looks awake is not: a probe that cannot touch a file fails the resume', async () => {
      const { fleet, provider } = world()
      const { id } = await world().suspended()
      provider.runs = () => ({ exitCode: 2, output: 'sh: cannot create: Read-only file system' })
      const { operation, sandbox } = await fleet.resume(id, { wait: '60s' })
      expect(operation).toMatchObject({ status: 'failed', error: { errorType: 'sandbox_unreachable' } })
      expect(operation.error?.message).toContain('Read-only file system')
      expect(sandbox.state).toBe('suspended')
    })

    test('lingering processes that cannot be ended do not keep it from waking', async () => {
      const { fleet, provider } = world()
      const { id } = await world().suspended()
      provider.next('endLingering', { kind: 'status', status: 500 })
      const { operation } = await fleet.resume(id, { wait: '30s' })
      expect(operation).toMatchObject({ status: 'succeeded', attempt: 1 })
      const { items } = await fleet.events(id)
      expect(items.at(-1)?.detail).toMatchObject({ evidence: { lingering: expect.stringContaining('500') } })
    })

    test('not found is expired, and anything else is unreachable; also when the SDK has wrapped it', async () => {
      const { fleet, provider } = world()
      const expired = await world().suspended()
      const unreachable = await world().suspended()
      provider.next('resume', { kind: 'error', type: 'not_found', message: 'Paused sandbox not found' })
      const first = await fleet.resume(expired.id, { wait: '30s' })
      expect(first.operation).toMatchObject({
        status: 'failed',
        error: { errorType: 'sandbox_expired', retryable: false },
      })
      expect(first.sandbox).toMatchObject({ state: 'gone', goneReason: 'expired' })

      provider.always('resume', { kind: 'status', status: 503 })
      const second = await fleet.resume(unreachable.id, { wait: '30s' })
      expect(second.operation).toMatchObject({
        status: 'failed',
        error: { errorType: 'sandbox_unreachable', retryable: true },
      })
      expect(second.sandbox.state).toBe('suspended')
    })

    test.each([
      ['provider_unauthorized', 1],
      ['quota_exceeded', 1],
      ['rate_limited', 2],
    ] as const)('%s leaves it suspended after %i attempts', async (type, attempts) => {
      const { fleet, provider } = world()
      const { id } = await world().suspended()
      provider.always('resume', { kind: 'error', type, message: `so says the provider` })
      const { operation, sandbox } = await fleet.resume(id, { wait: '30s' })
      expect(operation).toMatchObject({
        status: 'failed',
        attempt: attempts,
        error: { errorType: type, retryable: true },
      })
      expect(sandbox).toMatchObject({ state: 'suspended', checkpoint: { status: 'ready' } })
    })

    test('a first attempt that fails is followed by a second, and that one is believed', async () => {
      const { fleet, provider } = world()
      const { id } = await world().suspended()
      provider.next('resume', { kind: 'status', status: 500 })
      const { operation, sandbox } = await fleet.resume(id, { wait: '30s' })
      expect(operation).toMatchObject({
        status: 'succeeded',
        attempt: 2,
        lastError: { errorType: 'sandbox_unreachable' },
      })
      expect(sandbox.state).toBe('running')
    })

    test('a snapshot asked for twice, or of a sandbox that has expired, does not blow up and claims nothing', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().suspended()
      const asleep = await fleet.get(id)
      const twice = await Promise.all([fleet.snapshot(id, { wait: '30s' }), fleet.snapshot(id, { wait: '30s' })])
      for (const { operation } of twice) {
        expect(operation).toMatchObject({
          status: 'succeeded',
          outcome: 'already_done',
          checkpointId: asleep.checkpoint?.id,
        })
      }
      await fleet.resume(id, { wait: '30s' })
      provider.instances.delete(providerRef as string)
      const { operation, sandbox } = await fleet.snapshot(id, { wait: '30s' })
      expect(operation).toMatchObject({ status: 'failed', checkpointId: null, error: { errorType: 'sandbox_expired' } })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'expired' })
      const again = await fleet.snapshot(id, { wait: '30s' })
      expect(again.operation).toMatchObject({ status: 'refused', error: { errorType: 'sandbox_gone' } })
    })
  },
  { patience: IMPATIENT },
)

test('a resume is tried twice, five seconds apart', () => {
  expect(resumeQueue).toMatchObject({ attemptsMax: 2, backoff: { kind: 'fixed', delayMs: 5_000 } })
})
