import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bench, Result, Row } from './section.ts'
import { median, rounded } from './statistics.ts'

const MAIN = path.join(import.meta.dirname, '..', 'src', 'main.ts')
const READY_MS = 60_000
const ROLES = ['worker', 'web'] as const
/** What all of them begin with. */
const BARE = 'node'

type Who = (typeof ROLES)[number] | typeof BARE
type Figures = { start_ms: number; rss_mb: number }

/** How long a worker and a web process take to start, and what they need while nothing happens, beside a Node that does nothing. */
export async function footprint({ servers, sizes }: Bench): Promise<Result> {
  const { starts, idleMs } = sizes.footprint
  const databaseUrl = await servers.createDatabase('footprint')
  const env = {
    ...process.env,
    DATABASE_URL: databaseUrl,
    REDIS_URL: servers.redisUrl,
    SANDMAN_BACKENDS: 'local',
    PORT: '0',
    NODE_ENV: 'production',
  }
  const measured: Record<Who, Figures[]> = { node: [], worker: [], web: [] }
  // The first of each fills the cache of compiled code, as the first start of a release does.
  for (let nth = 0; nth <= starts; nth++) {
    for (const who of [BARE, ...ROLES] as const) {
      const figures = await start(who, env, idleMs)
      if (nth > 0) measured[who].push(figures)
    }
  }
  const of = (who: Who): Figures => ({
    start_ms: Math.round(median(measured[who].map(({ start_ms }) => start_ms))),
    rss_mb: rounded(median(measured[who].map(({ rss_mb }) => rss_mb))),
  })
  const bare = of(BARE)
  return {
    json: { node: bare, worker: of('worker'), web: of('web') },
    rows: ROLES.flatMap((who) => rowsOf(who, of(who), bare)),
  }
}

async function start(who: Who, env: NodeJS.ProcessEnv, idleMs: number): Promise<Figures> {
  const beganAt = performance.now()
  const child =
    who === BARE
      ? bareNode()
      : fork(MAIN, [who, '--supervised'], { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  try {
    const signal = AbortSignal.timeout(READY_MS)
    await (who === BARE
      ? once(child.stdout as NonNullable<ChildProcess['stdout']>, 'data', { signal })
      : once(child, 'message', { signal }))
    const start_ms = performance.now() - beganAt
    await sleep(idleMs)
    return { start_ms, rss_mb: await rssMb(child.pid as number) }
  } finally {
    const ended = once(child, 'exit')
    child.kill()
    await ended
  }
}

/** Stays, as the others do, or there would be nothing to look at. */
function bareNode(): ChildProcess {
  return spawn(process.execPath, ['-e', 'process.stdout.write("ready"); setInterval(() => {}, 1e6)'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

async function rssMb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_024
}

function rowsOf(who: Who, { start_ms, rss_mb }: Figures, bare: Figures): Row[] {
  const note = 'a Node that does nothing'
  return [
    {
      figure: `memory of an idle ${who}`,
      value: rss_mb,
      unit: 'MB',
      limit: bare.rss_mb,
      note,
      ratio: rounded(rss_mb / bare.rss_mb),
    },
    {
      figure: `start of a ${who}`,
      value: start_ms,
      unit: 'ms',
      limit: bare.start_ms,
      note,
      ratio: rounded(start_ms / bare.start_ms),
    },
  ]
}
