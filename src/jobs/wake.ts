import { BackendError, type Target } from '../backends/backend.ts'
import type { Spec } from '../backends/spec.ts'
import { describeError } from '../errors.ts'
import { LEASE_SLACK_MS } from './lease.ts'
import { type Known, look } from './look.ts'
import type { Work } from './operation.ts'

/** Runs something, and touches the file system: what only looks awake fails at one of the two. */
const PROBE = 'f=.sandman-probe-$$; echo awake > "$f" && cat "$f" && rm -f "$f"'

const OUTPUT_SHOWN = 400

/** A sandbox that was seen to be awake. */
export type Awake = {
  state: 'running'
  providerRef: string
  incarnation: string
  previewUrl: string | undefined
  expiresAt: Date | undefined
}

/**
 * From an instance that runs to a sandbox that can be used: its time-to-live is set and read back, leftovers are ended, a
 * probe shows that it is really awake, the hooks are run, and the preview is asked until it answers.
 */
export async function wake(work: Work, ref: string, how: { isNew: boolean; skipHooks: boolean }): Promise<Awake> {
  const seen = await lookAwake(work, ref)
  const target = { ref, incarnation: seen.incarnation }
  const endsAt = await setLease(work, target, seen.endsAt)
  if (!how.isNew) await endLingering(work, target)
  await probe(work, target)
  const { wake: hooks = {} } = work.sandbox.spec as Spec
  const { commands = [], previewPort } = how.skipHooks ? {} : hooks
  for (const command of commands) await runHook(work, target, command)
  const previewUrl = previewPort === undefined ? undefined : await awaitPreview(work, ref, previewPort)
  return { state: 'running', providerRef: ref, incarnation: seen.incarnation, previewUrl, expiresAt: endsAt }
}

async function lookAwake(work: Work, ref: string): Promise<Extract<Known, { is: 'running' }>> {
  const seen = await look(work, ref)
  if (seen.is === 'running') return seen
  const { id } = work.sandbox
  if (seen.is === 'suspended') throw new BackendError('sandbox_unreachable', `${id} was woken, and still sleeps.`)
  const why = seen.is === 'lost' ? seen.why : 'its provider says that there is no such thing'
  throw new BackendError('sandbox_expired', `${id} vanished while it woke: ${why}.`)
}

/** Set explicitly, because connecting again resets it silently; and read back, because what was asked for may be cut. */
async function setLease(work: Work, target: Target, before: Date | undefined): Promise<Date | undefined> {
  const { backend, provider, sandbox, evidence, events } = work
  const { lease } = backend
  if (lease === 'none') return before
  const ttlMs = work.leaseMs
  for (let tries = 1; ; tries++) {
    await provider.ask('lease', (call) => lease.set(target, ttlMs, call))
    const { endsAt } = await lookAwake(work, target.ref)
    const isShort = endsAt !== undefined && endsAt.getTime() < Date.now() + ttlMs - LEASE_SLACK_MS
    evidence.lease = { asked_ms: ttlMs, ends_at: endsAt?.toISOString() ?? null }
    if (!isShort) return endsAt
    if (tries < 2) continue
    // Its provider has a shorter maximum. That is no failure; the row says when it really ends.
    events.emit('sandbox.lease_short', { sandboxId: sandbox.id, askedMs: ttlMs, endsAt })
    return endsAt
  }
}

/** As well as it goes: what cannot be ended does not keep a sandbox from waking. */
async function endLingering({ backend, provider, evidence }: Work, target: Target): Promise<void> {
  await provider
    .ask('end_lingering', (call) => backend.endLingering(target, call))
    .catch((error: unknown) => {
      evidence.lingering = describeError(error)
    })
}

async function probe({ backend, provider, sandbox }: Work, target: Target): Promise<void> {
  const { exitCode, output } = await provider.ask('probe', (call) => backend.run(target, PROBE, call))
  if (exitCode === 0 && output.includes('awake')) return
  throw new BackendError(
    'sandbox_unreachable',
    `${sandbox.id} runs, but is not awake: a probe ended with exit code ${exitCode}${shown(output)}.`,
  )
}

async function runHook({ backend, provider, sandbox }: Work, target: Target, command: string): Promise<void> {
  const { exitCode, output } = await provider.ask('hook', (call) => backend.run(target, command, call))
  if (exitCode === 0) return
  throw new BackendError(
    'sandbox_unreachable',
    `${sandbox.id} woke, but its wake command "${command.slice(0, OUTPUT_SHOWN)}" ended with exit code ${exitCode}${shown(output)}.`,
  )
}

/** Anything below 500 is an answer: what the app says is its own business, a gateway's 502 is not the app. */
async function awaitPreview(work: Work, ref: string, port: number): Promise<string | undefined> {
  const { backend, provider, sandbox, evidence } = work
  const url = await provider.ask('preview_url', (call) => backend.previewUrl(ref, port, call))
  if (url === undefined) {
    evidence.preview = `backend ${backend.name} has no address for port ${port}`
    return undefined
  }
  const { previewMs, previewTryMs } = provider.patience
  return provider.poll(previewMs, async (givenUp) => {
    const signal = AbortSignal.any([givenUp, AbortSignal.timeout(previewTryMs)])
    const answer = await fetch(url, { redirect: 'manual', signal }).then(
      async (response) => {
        await response.body?.cancel().catch(() => {})
        return `status ${response.status}`
      },
      (error: unknown) => describeError(error),
    )
    if (/^status [1-4]/.test(answer)) return { answer: url }
    return {
      still: new BackendError(
        'sandbox_unreachable',
        `${sandbox.id} woke, but its preview ${url} does not answer: ${answer}.`,
      ),
    }
  })
}

function shown(output: string): string {
  const text = output.trim().slice(-OUTPUT_SHOWN)
  return text === '' ? '' : `, and said: ${text}`
}
