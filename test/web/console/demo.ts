import { sql } from 'kysely'
import type { Ending } from '../../../src/db/ending.ts'
import { endExecution, startExecution } from '../../../src/db/executions.ts'
import { recordFailure } from '../../../src/db/fail.ts'
import { recordFirstLooks } from '../../../src/db/findings.ts'
import type { Db } from '../../../src/db/pool.ts'
import type { SandboxRow } from '../../../src/db/schema.ts'
import { appendOutput, type TakenExecution, takeExecution } from '../../../src/db/streams.ts'
import type { ExecutionEnd } from '../../../src/sandbox/executions.ts'
import { failure } from '../../../src/sandbox/failures.ts'
import { stoppedClock } from '../../support/clock.ts'
import { type Ledger, ledgerOn } from '../../support/ledger.ts'

const SECOND = 1_000
const MINUTE = 60_000
const HOUR = 3_600_000

const done = { status: 'succeeded', outcome: 'done' } as const

/** A fleet as it may look on a working day: written by the statements that write a real one, with a clock that is told. */
export class Demo {
  readonly db: Db
  readonly fleet: string
  readonly #start: number

  constructor(db: Db, { fleet, now }: { fleet: string; now: number }) {
    this.db = db
    this.fleet = fleet
    this.#start = now
  }

  /** So long ago, and from then on as it is told. */
  at(agoMs: number): { ledger: Ledger; clock: ReturnType<typeof stoppedClock> } {
    const clock = stoppedClock(new Date(this.#start - agoMs).toISOString())
    return { ledger: ledgerOn(this.db, { fleet: this.fleet, clock }), clock }
  }

  async spawned(
    agoMs: number,
    backend: string,
    metadata: Record<string, unknown>,
    more: Parameters<Ledger['spawn']>[0] = {},
  ) {
    const { ledger, clock } = this.at(agoMs)
    const { operation } = await ledger.spawn({ backend, metadata, ...more })
    const { attempt } = await ledger.begin(operation.id, 'worker-7f9c')
    clock.advance(2_300)
    const name = operation.id.slice(-9)
    const { sandbox } = await ledger.end(attempt, {
      ...done,
      rest: {
        state: 'running',
        providerRef: `i${name}`,
        incarnation: `${name}-1`,
        previewUrl: `https://3000-i${name}.sandboxes.example.com`,
        ...(backend === 'e2b' && { expiresAt: new Date(this.#start + 3 * HOUR) }),
      },
      evidence: { lease: { asked_ms: 4 * HOUR, ends_at: new Date(this.#start + 3 * HOUR).toISOString() } },
    })
    return { ledger, clock, sandbox }
  }

  async performed(
    ledger: Ledger,
    clock: { advance(ms: number): void },
    operationId: string,
    ending: Ending,
    tookMs = 1_900,
  ) {
    const { attempt } = await ledger.begin(operationId, 'worker-7f9c')
    clock.advance(tookMs)
    return ledger.end(attempt, ending)
  }

  async executed(
    ledger: Ledger,
    clock: ReturnType<typeof stoppedClock>,
    sandbox: SandboxRow,
    command: string,
    output: string,
    end?: ExecutionEnd,
  ) {
    const { id } = await ledger.execute(sandbox.id, { command: ['sh', '-c', command] })
    clock.advance(200)
    await startExecution(this.db, { id, incarnation: sandbox.incarnation as string, clock })
    const asked = { fleet: this.fleet, executionId: id, worker: 'worker-7f9c', backends: [sandbox.backend], clock }
    const { execution } = (await takeExecution(this.db, asked)) as TakenExecution
    await this.print(execution, 0, output, clock)
    if (!end) return execution
    clock.advance(41 * SECOND)
    await endExecution(this.db, { id, end, clock })
    return execution
  }

  async print(
    execution: { id: string; fence: number },
    from: number,
    text: string,
    clock = this.at(0).clock,
  ): Promise<void> {
    const bytes = Buffer.from(text)
    const piece = {
      id: execution.id,
      fence: execution.fence,
      from,
      bytes,
      cursor: String(from + bytes.length),
      truncated: false,
    }
    if (bytes.length > 0) await appendOutput(this.db, [piece], clock)
  }
}

const paused = (ref: string, sizeBytes: number): Ending => ({
  ...done,
  rest: { state: 'suspended', checkpoint: { kind: 'pause', providerRef: ref, sizeBytes } },
  evidence: { checkpoint: { ref, is: 'ready', sizeBytes } },
})

const BUILD = `> app@1.4.0 build
> vite build

vite v8.3.8 building for production...
transforming...
✓ 1284 modules transformed.
rendering chunks...
dist/index.html                   0.46 kB │ gzip:  0.30 kB
dist/assets/index-C4kQ1b.css     21.07 kB │ gzip:  4.91 kB
dist/assets/index-B7uYx2.js     318.44 kB │ gzip: 98.12 kB
✓ built in 6.41s
`

const AGENT = `10:41:07 plan       reading the failing tests
10:41:09 tool.bash  npx vitest run src/cart
10:41:16 tool.bash  exit 1: 2 failed, 31 passed
10:41:16 think      the discount is applied before the tax is known
10:41:21 tool.edit  src/cart/total.ts (+9 -4)
10:41:22 tool.bash  npx vitest run src/cart
10:41:30 tool.bash  exit 0: 33 passed
10:41:31 think      the same rule is written down twice; looking for the other
`

/** The one that the pages show: it has lived through most of what can happen. */
export async function seedHero(
  demo: Demo,
): Promise<{ sandbox: SandboxRow; printing: { id: string; fence: number }; oom: { id: string } }> {
  const { ledger, clock, sandbox } = await demo.spawned(
    7 * HOUR,
    'e2b',
    { team: 'checkout', project: 'cart-service', user: 'mara', plan: 'pro' },
    { agentThreadId: 'thread_cart_7781', ttl: { idleMs: 30 * MINUTE, hardMs: 7 * 24 * HOUR } },
  )
  clock.advance(4 * MINUTE)
  await demo.executed(ledger, clock, sandbox, 'npm ci && npm run build', BUILD, {
    status: 'succeeded',
    reason: 'completed',
    exitCode: 0,
  })
  const since = clock.stoppedAt()?.toISOString() as string
  clock.advance(31 * MINUTE)
  const idle = await ledger.ask(sandbox.id, 'pause', {
    cause: { by: 'reaper', limit: 'idle', since, limit_ms: 30 * MINUTE, of: 'sandbox' },
  })
  await demo.performed(ledger, clock, idle.operation.id, paused('snap-91ab7c', 412_338_176))
  clock.advance(3 * HOUR)
  const first = await ledger.ask(sandbox.id, 'resume')
  const failed = await ledger.begin(first.operation.id, 'worker-7f9c')
  clock.advance(5 * SECOND)
  await recordFailure(demo.db, {
    attempt: failed.attempt,
    failure: failure('sandbox_unreachable', 'E2B answered 502: upstream connect error'),
    acted: false,
    clock,
  })
  clock.advance(5 * SECOND)
  await demo.performed(ledger, clock, first.operation.id, {
    ...done,
    rest: { state: 'running', incarnation: `${sandbox.incarnation?.slice(0, -1)}2` },
    checkpoints: { which: 'own', are: 'deleted' },
    evidence: { lease: { asked_ms: 4 * HOUR, ends_at: new Date(Date.now() + 3 * HOUR).toISOString() } },
  })
  clock.advance(12 * MINUTE)
  const copy = await ledger.ask(sandbox.id, 'snapshot', { options: { name: 'before-migration' } })
  await demo.performed(ledger, clock, copy.operation.id, {
    ...done,
    rest: {
      state: 'running',
      snapshot: { kind: 'snapshot', providerRef: 'snap-c07e52', name: 'before-migration', sizeBytes: 418_120_704 },
    },
  })
  clock.advance(50 * MINUTE)
  const row = await ledger.sandbox(sandbox.id)
  const oom = await demo.executed(
    ledger,
    clock,
    row,
    'node scripts/import-catalog.mjs --all',
    'reading catalog.ndjson\n400,000 rows\n800,000 rows\n1,200,000 rows\n',
    {
      status: 'failed',
      reason: 'oom_killed',
      exitCode: 137,
      message: 'The agent used more than 512 MB.',
    },
  )
  clock.advance(Math.max(0, Date.now() - (clock.stoppedAt()?.getTime() ?? 0) - 42 * SECOND))
  const printing = await demo.executed(ledger, clock, row, 'node agent.js --task "fix the cart total"', AGENT)
  return { sandbox: row, printing, oom }
}

const TEAMS = [
  ['checkout', 'cart-service'],
  ['search', 'ranker'],
  ['growth', 'landing-pages'],
  ['data', 'notebooks'],
  ['platform', 'ci-agents'],
  ['support', 'triage-bot'],
] as const
const USERS = ['mara', 'jonas', 'li', 'adaeze', 'tomás', 'yuki', 'sam']
const BACKENDS = ['e2b', 'e2b', 'docker', 'e2b', 'agent-sandbox', 'docker', 'kubernetes-pod'] as const

/** Everything around it: asleep, awake, on its way, lost and failing. */
export async function seedAround(demo: Demo, count: number): Promise<void> {
  for (let nth = 0; nth < count; nth++) {
    const agoMs = (count - nth) * 23 * MINUTE + (nth % 7) * 41 * SECOND + 3 * MINUTE
    const [team, project] = TEAMS[nth % TEAMS.length] as (typeof TEAMS)[number]
    const backend = BACKENDS[nth % BACKENDS.length] as string
    const metadata = { team, project, user: USERS[nth % USERS.length] }
    const able = { canPause: backend !== 'kubernetes-pod', canSnapshot: backend === 'e2b' || backend === 'docker' }
    const { ledger, clock, sandbox } = await demo.spawned(agoMs, backend, metadata, able)
    clock.advance(2 * MINUTE)
    const { id } = sandbox
    switch (backend === 'kubernetes-pod' ? 4 : nth % 9) {
      case 0:
      case 2:
      case 5:
      case 7: {
        const asked = await ledger.ask(id, 'pause')
        await demo.performed(
          ledger,
          clock,
          asked.operation.id,
          paused(`snap-${id.slice(-6)}`, 90_000_000 + nth * 7_340_032),
        )
        break
      }
      case 3: {
        const asked = await ledger.ask(id, nth % 2 ? 'destroy' : 'kill')
        await ledger.perform(asked.operation.id)
        break
      }
      case 8: {
        await ledger.perform((await ledger.ask(id, 'pause')).operation.id)
        clock.advance(MINUTE)
        const asked = await ledger.ask(id, 'resume')
        await demo.performed(ledger, clock, asked.operation.id, {
          status: 'failed',
          error: failure('checkpoint_missing', `There is no snapshot ${id.slice(-6)} at the provider any more.`),
          rest: { state: 'gone', reason: 'checkpoint_missing' },
          checkpoints: { which: 'own', are: 'missing' },
        })
        break
      }
      default:
    }
  }
  await seedTroubles(demo)
  await seedTallies(demo)
}

async function seedTroubles(demo: Demo): Promise<void> {
  const { db, fleet } = demo
  const stuck = await demo.spawned(52 * MINUTE, 'agent-sandbox', { team: 'data', project: 'notebooks', user: 'li' })
  stuck.clock.advance(20 * MINUTE)
  const asked = await stuck.ledger.ask(stuck.sandbox.id, 'pause')
  const { attempt } = await stuck.ledger.begin(asked.operation.id, 'worker-2b41')
  await recordFailure(db, {
    attempt,
    failure: failure('sandbox_unreachable', 'The Kubernetes API did not answer: connect ETIMEDOUT 10.4.0.1:443'),
    acted: true,
    clock: stuck.clock,
  })
  const now = demo.at(20 * SECOND)
  for (const backend of ['docker', 'e2b'])
    await now.ledger.spawn({ backend, metadata: { team: 'platform', project: 'ci-agents', user: 'sam' } })
  const waking = await demo.spawned(90 * MINUTE, 'e2b', { team: 'search', project: 'ranker', user: 'yuki' })
  const pausing = await waking.ledger.ask(waking.sandbox.id, 'pause')
  await demo.performed(waking.ledger, waking.clock, pausing.operation.id, paused('snap-77d1f0', 201_326_592))
  await now.ledger.ask(waking.sandbox.id, 'resume')
  const missed = await demo.spawned(3 * HOUR, 'docker', { team: 'growth', project: 'landing-pages', user: 'jonas' })
  await recordFirstLooks(
    db,
    [
      {
        fleet,
        backend: 'docker',
        kind: 'instance_missing',
        ref: missed.sandbox.provider_ref as string,
        place: 'docker-host-3',
        sandboxId: missed.sandbox.id,
        asked: missed.sandbox.provider_ref as string,
        saw: 'there is no such container',
      },
    ],
    { againMs: 10 * MINUTE, clock: demo.at(4 * MINUTE).clock },
  )
  const busy = await demo.spawned(100 * MINUTE, 'e2b', { team: 'support', project: 'triage-bot', user: 'adaeze' })
  await busy.ledger.perform((await busy.ledger.ask(busy.sandbox.id, 'pause')).operation.id)
  busy.clock.advance(60 * MINUTE)
  const refused = await busy.ledger.ask(busy.sandbox.id, 'resume')
  await demo.performed(busy.ledger, busy.clock, refused.operation.id, {
    status: 'failed',
    error: failure('quota_exceeded', 'E2B: you have reached the limit of 100 concurrent sandboxes.'),
    rest: { state: 'suspended' },
  })
  for (const [backend, place, instances, checkpoints] of [
    ['e2b', 'team acme', 61, 44],
    ['docker', 'docker-host-3', 18, 9],
    ['agent-sandbox', 'cluster eu-1, namespace sandboxes', 12, 7],
  ] as const) {
    const ended = new Date(Date.now() - 3 * MINUTE)
    await sql`insert into sandman.sweeps (fleet, backend, place, round, phase, began_at, ended_at, ticked_at, instances, checkpoints)
      values (${fleet}, ${backend}, ${place}, 41, 'done', ${ended}, ${ended}, ${ended}, ${instances}, ${checkpoints})`.execute(
      db,
    )
  }
  await sql`update sandman.sweeps set failing_since = ${new Date(Date.now() - 32 * MINUTE)}, failure = 'The Kubernetes API did not answer: connect ETIMEDOUT 10.4.0.1:443'
    where fleet = ${fleet} and backend = 'agent-sandbox'`.execute(db)
}

/** What the workers have counted in a day that had a morning, an afternoon, and a provider that failed for half an hour. */
async function seedTallies({ db, fleet }: Demo): Promise<void> {
  const rows: Record<string, unknown>[] = []
  for (let nth = 0; nth < 96; nth++) {
    const at = new Date(Date.now() - (95 - nth) * 15 * MINUTE)
    const day = Math.max(0, Math.sin(((nth - 18) / 96) * 2 * Math.PI)) + 0.25 * Math.max(0, Math.sin(nth / 3.1))
    const much = Math.round(6 + 70 * day + (nth % 5) * 3)
    const failed = nth > 60 && nth < 66 ? 7 : nth % 23 === 0 ? 1 : 0
    const labels = { backend: 'e2b' }
    const counted = [
      ['sandman_operations_total', { ...labels, kind: 'pause', outcome: 'done' }, much],
      ['sandman_operations_total', { ...labels, kind: 'resume', outcome: 'done' }, Math.round(much * 0.7) + 1],
      [
        'sandman_operations_total',
        {
          ...labels,
          kind: 'resume',
          outcome: 'failed',
          error_type: failed > 1 ? 'sandbox_unreachable' : 'checkpoint_missing',
        },
        failed,
      ],
      [
        'sandman_operation_duration_seconds_bucket',
        { ...labels, kind: 'resume', le: '2.5' },
        Math.round(much * 0.6) + 1,
      ],
      [
        'sandman_operation_duration_seconds_bucket',
        { ...labels, kind: 'resume', le: failed > 1 ? '30' : '5' },
        Math.round(much * 0.1) + 1,
      ],
      ['sandman_executions_total', { ...labels, status: 'succeeded' }, much * 3],
      ['sandman_executions_total', { ...labels, status: 'failed' }, nth % 7 === 0 ? 3 : 1],
    ] as const
    rows.push(
      ...counted
        .filter(([, , value]) => value > 0)
        .map(([name, labels, value]) => ({ fleet, at, name, labels, value })),
    )
  }
  await sql`insert into sandman.tallies select * from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
    as given (fleet text, at timestamptz, name text, labels jsonb, value double precision)`.execute(db)
}
