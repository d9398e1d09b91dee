import type { z } from 'zod'
import { findOperations } from '../../db/operations.ts'
import { listBackends } from '../../db/sandboxes.ts'
import { touch } from '../../db/touch.ts'
import { SandmanError } from '../../errors.ts'
import { isIdOf } from '../../sandbox/ids.ts'
import type { Kind, Options } from '../../sandbox/judge.ts'
import { ask, askToSpawn } from '../ask.ts'
import type { Answer, Fleet } from '../fleet.ts'
import {
  AdoptRequest,
  limitsOf,
  PauseRequest,
  parseRequest,
  ResumeRequest,
  SnapshotRequest,
  SpawnRequest,
  SweepRequest,
  TeardownRequest,
  WaitRequest,
} from '../requests.ts'
import { askToSweep } from '../sweep.ts'
import { viewSandbox } from '../views.ts'
import type { FleetContext } from './context.ts'
import { unknownId } from './unknown-id.ts'
import { untilSettled, type Waiting } from './waits.ts'

type Verbs =
  | ('spawn' | 'adopt' | 'pause' | 'resume' | 'snapshot' | 'kill' | 'destroy')
  | ('operation' | 'touch' | 'sweep')

type Asking = Waiting & { idempotencyKey?: string | undefined }

/** What is asked of sandboxes, and what became of it. */
export function verbs(context: FleetContext): Pick<Fleet, Verbs> {
  const { db, fleet, clock, backends, limits, call, deps } = context

  function verb(sandboxId: string, kind: Kind, options: Options, { wait, signal, idempotencyKey }: Asking) {
    return call(async () => {
      signal?.throwIfAborted()
      if (!isIdOf('sandbox', sandboxId)) throw unknownId('sandbox', sandboxId, fleet)
      const requested = await ask(deps(), { sandboxId, kind, options, idempotencyKey })
      return untilSettled(context, requested, { wait, signal })
    })
  }

  function make(request: z.output<typeof SpawnRequest>, adopt?: Record<string, string | undefined>): Promise<Answer> {
    const { backend: name, ttl, metadata = {}, agentThreadId, wait, signal, idempotencyKey, ...spec } = request
    return call(async () => {
      const backend = backends.get(name)
      if (!backend) throw unknownBackend(name)
      signal?.throwIfAborted()
      const { canPause, canSnapshot } = backend
      const requested = await askToSpawn(deps(), {
        backend: name,
        canPause,
        canSnapshot,
        spec: { ...spec, ...(adopt && { adopt }) },
        metadata,
        ttl: limitsOf(ttl),
        agentThreadId,
        idempotencyKey,
      })
      return untilSettled(context, requested, { wait, signal })
    })
  }

  function unknownBackend(name: string): SandmanError {
    const message = `There is no backend ${name}; there are: ${[...backends.keys()].join(', ')}.`
    return new SandmanError('backend_unknown', message, { details: { name } })
  }

  return {
    spawn: async (request) => make(parseRequest(SpawnRequest, request)),
    async adopt(request) {
      const { ref, checkpointRef, ...rest } = parseRequest(AdoptRequest, request)
      return make(rest, { ref, checkpointRef })
    },
    async pause(sandboxId, request = {}) {
      const { ifUnsupported, ifBusy, ...asking } = parseRequest(PauseRequest, request)
      const options = {
        ...(ifUnsupported && { if_unsupported: ifUnsupported }),
        ...(ifBusy && { if_busy: ifBusy }),
      }
      return verb(sandboxId, 'pause', options, asking)
    },
    async resume(sandboxId, request = {}) {
      const { ifLost, skipHooks, ...asking } = parseRequest(ResumeRequest, request)
      const options = { ...(ifLost && { if_lost: ifLost }), ...(skipHooks && { hooks: 'skip' as const }) }
      return verb(sandboxId, 'resume', options, asking)
    },
    async snapshot(sandboxId, request = {}) {
      const { name, ...asking } = parseRequest(SnapshotRequest, request)
      return verb(sandboxId, 'snapshot', { ...(name !== undefined && { name }) }, asking)
    },
    kill: async (sandboxId, request = {}) => verb(sandboxId, 'kill', {}, parseRequest(TeardownRequest, request)),
    destroy: async (sandboxId, request = {}) => verb(sandboxId, 'destroy', {}, parseRequest(TeardownRequest, request)),
    async operation(operationId, request = {}) {
      const waiting = parseRequest(WaitRequest, request)
      return call(async () => {
        waiting.signal?.throwIfAborted()
        const [found] = isIdOf('operation', operationId) ? await findOperations(db, { fleet, ids: [operationId] }) : []
        if (!found) throw unknownId('operation', operationId, fleet)
        return untilSettled(context, found, waiting)
      })
    },
    touch: (sandboxId) =>
      call(async () => {
        const found = isIdOf('sandbox', sandboxId) && (await touch(db, { fleet, id: sandboxId, clock }))
        if (!found) throw unknownId('sandbox', sandboxId, fleet)
        return viewSandbox(found.sandbox, found.checkpoint)
      }),
    async sweep(request = {}) {
      const asked = parseRequest(SweepRequest, request)
      return call(async () => {
        asked.signal?.throwIfAborted()
        const { backend: name } = asked
        if (name !== undefined && !backends.has(name) && !(await listBackends(db, fleet)).includes(name))
          throw unknownBackend(name)
        return askToSweep({ ...deps(), limits }, asked)
      })
    },
  }
}
