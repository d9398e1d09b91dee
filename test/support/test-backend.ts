import {
  type AgentStatus,
  type Backend,
  BackendError,
  type BackendErrorType,
  type Call,
  type CheckpointCondition,
  type Found,
  type ListedCheckpoint,
  type ListedInstance,
  type Listing,
  type Sighting,
} from '../../src/backends/backend.ts'

/** What the workers of a world have, besides the local backend. */
export function worldBackends(url: string, fleet: string): Backend[] {
  return [testBackend({ url, fleet }), testBackend({ url, fleet, name: 'plain', canPause: false, canSnapshot: false })]
}

type TestBackendOptions = {
  url: string
  /** Whose label all carries that it makes, and whose it sees. */
  fleet?: string
  name?: string
  canPause?: boolean
  canSnapshot?: boolean
}

/** The client of `FakeProvider`: a backend like any other, over HTTP. */
export function testBackend({
  url,
  fleet: label = 'test',
  name = 'test',
  canPause = true,
  canSnapshot = true,
}: TestBackendOptions): Backend {
  // Each backend is an account of its own at this provider.
  const fleet = `${label}/${name}`
  async function ask<T>(method: string, body: Record<string, unknown>, { signal }: Call): Promise<T> {
    const response = await fetch(`${url}/call/${method}`, { method: 'POST', body: JSON.stringify(body), signal }).catch(
      (error: unknown) => {
        signal.throwIfAborted()
        throw new BackendError('sandbox_unreachable', `The test provider was not reached for ${method}.`, {
          cause: error,
        })
      },
    )
    if (!response.ok) throw await failureIn(response, method)
    return ((await response.json()) as { result: T }).result
  }

  async function failureIn(response: Response, method: string): Promise<Error> {
    const text = await response.text()
    const reply = response.headers.get('content-type') === 'application/json' ? JSON.parse(text) : undefined
    // Only the provider's own word counts: a gateway's 404 says nothing about the sandbox.
    if (!reply?.error) {
      const message = `The test provider answered ${method} with ${response.status}: ${text}`
      return new BackendError('sandbox_unreachable', message)
    }
    const type = reply.error.type === 'not_found' ? 'sandbox_expired' : (reply.error.type as BackendErrorType)
    // As an SDK does: wrapped in an error of its own.
    return new Error('the SDK failed', { cause: new BackendError(type, reply.error.message) })
  }

  async function list<T>(method: string, cursor: string | undefined, call: Call): Promise<Listing<T>> {
    const { items, next } = await ask<{ items: (T & { fleet: string })[]; next: string | null }>(
      method,
      { fleet, cursor },
      call,
    )
    // Also when the provider has not kept to the filter: what carries another label is nobody's business here.
    return { items: items.filter((item) => item.fleet === fleet), next: next ?? undefined }
  }

  const checkpoints = {
    verify: (checkpointRef: string, call: Call) => ask<CheckpointCondition>('verify', { checkpointRef }, call),
    discard: (checkpointRef: string, call: Call) => ask<void>('discard', { checkpointRef }, call),
  }
  return {
    name,
    find: (sandboxId, call) => ask<Found[]>('find', { fleet, sandboxId }, call),
    create: (wanted, call) => ask<{ ref: string }>('create', { ...wanted, fleet }, call),
    adopt: (ref, owner, call) => ask<void>('adopt', { ref, owner: { ...owner, fleet } }, call),
    async look(ref, call) {
      const seen = await ask<Sighting & { endsAtMs?: number; checkpointRef?: string | null }>('look', { ref }, call)
      if (seen.is === 'suspended') return { is: 'suspended', checkpointRef: seen.checkpointRef ?? undefined }
      if (seen.is === 'running') {
        return { is: 'running', incarnation: seen.incarnation, endsAt: new Date(seen.endsAtMs as number) }
      }
      return seen
    },
    end: (target, call) => ask<void>('end', { ref: target.ref, target }, call),
    run: (target, command, call) => ask('run', { ref: target.ref, target, command }, call),
    endLingering: (target, call) => ask<void>('endLingering', { ref: target.ref, target }, call),
    previewUrl: async (ref, port) => `${url}/preview/${encodeURIComponent(ref)}?port=${port}`,
    startAgent: (target, asked, call) => ask<void>('startAgent', { ref: target.ref, target, ...asked }, call),
    stopAgent: (agent, call) => ask<void>('stopAgent', { ref: agent.ref, agent }, call),
    agentStatus: (agent, call) => ask<AgentStatus>('agentStatus', { ref: agent.ref, agent }, call),
    async *attach(agent, cursor, { signal }) {
      let at = Number(cursor ?? 0)
      const body = JSON.stringify({ ref: agent.ref, agent, from: at })
      try {
        const response = await fetch(`${url}/call/attach`, { method: 'POST', body, signal })
        if (!response.ok || !response.body) throw await failureIn(response, 'attach')
        for await (const bytes of response.body) {
          at += bytes.length
          yield { bytes, cursor: String(at) }
        }
        const total = response.headers.get('x-total-bytes')
        if (total === String(at)) yield { bytes: new Uint8Array(), cursor: String(at), isLast: true }
      } catch (error) {
        signal.throwIfAborted()
        if (error instanceof BackendError || (error as Error).cause instanceof BackendError) throw error
        throw new BackendError('sandbox_unreachable', 'The stream of the test provider was cut.', { cause: error })
      }
    },
    lists: {
      place: async () => ({ name: 'the test account', holds: () => true }),
      instances: (cursor, call) => list<ListedInstance>('list', cursor, call),
      checkpoints:
        canPause || canSnapshot ? (cursor, call) => list<ListedCheckpoint>('listCheckpoints', cursor, call) : 'none',
    },
    pausing: canPause
      ? {
          ...checkpoints,
          preserves: 'memory',
          consumesCheckpoint: false,
          needsCheckpoint: true,
          async suspend(target, { key }, call) {
            await ask('suspend', { ref: target.ref, target, key }, call)
            return { checkpointRef: undefined } // as if its answer said nothing: `look` has to
          },
          resume: ({ ref }, asked, call) => ask<void>('resume', { ref, ...asked }, call),
        }
      : 'none',
    snapshots: canSnapshot
      ? { ...checkpoints, take: (target, asked, call) => ask('take', { ref: target.ref, target, ...asked }, call) }
      : 'none',
    lease: { set: (target, ttlMs, call) => ask<void>('lease', { ref: target.ref, target, ttlMs }, call) },
    close: async () => {},
  }
}
