import type { Alert } from '../../printed/alerts.ts'
import { stateDiagram } from '../../printed/lifecycle.ts'
import { abilitiesOf, type Backend } from '../../src/backends/backend.ts'
import { BACKENDS } from '../../src/backends/catalog.ts'
import { BACKEND_NAMES, type BackendName } from '../../src/backends/names.ts'
import { describeConfig } from '../../src/config.ts'
import { duration } from '../../src/fleet/words.ts'
import { QUEUES } from '../../src/queues/catalog.ts'
import type { QueueDefinition } from '../../src/queues/define.ts'

/** What README and docs/ print of the code, between two marks. Printed anew by `npx vitest run docs --update`. */
export function fillIn(page: string, parts: Record<string, string>): string {
  let filled = page
  for (const [name, part] of Object.entries(parts)) {
    const marks = new RegExp(`(<!-- ${name} -->\n)[\\s\\S]*?(<!-- /${name} -->)`)
    if (!marks.test(filled)) throw new Error(`There is no place for ${name}: <!-- ${name} --> … <!-- /${name} -->`)
    filled = filled.replace(marks, (_all, start: string, end: string) => `${start}${part}\n${end}`)
  }
  return filled
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

const setting = ({ name, description, defaultsTo }: ReturnType<typeof describeConfig>[number]) => [
  `\`${name}\``,
  defaultsTo && `\`${defaultsTo}\``,
  description,
]

/** Those that nearly every deployment sets. */
const USUAL =
  /^(DATABASE_URL|REDIS_URL|PORT|SANDMAN_(FLEET|TOKENS|BACKENDS|QUEUES|TTL|GRACE)|E2B_API_KEY|DOCKER_HOST|LOG_LEVEL)$/

export function usualSettings(): string {
  return settingsLike(USUAL)
}

/** By who reads them. A setting belongs to the first that takes it. */
const GROUPS = {
  'Every process': /^(DATABASE_URL|REDIS_URL|SANDMAN_(FLEET|GRACE|DATA)|LOG_LEVEL)$/,
  Web: /^(PORT|SANDMAN_(HOST|TOKENS|RATE_LIMIT|PROXIES))$/,
  Workers: /^SANDMAN_(QUEUES|BACKENDS|TTL|SWEEPER|DESTROY_MAX|KEEP)$/,
  'The backend docker': /^(DOCKER_|SANDMAN_DOCKER_)/,
  'The backend e2b': /^E2B_/,
  'The backends kubernetes-pod and agent-sandbox': /^(KUBECONFIG|SANDMAN_KUBERNETES_)/,
  'The backend agentuity': /^AGENTUITY_/,
  Traces: /^OTEL_/,
}

export function allSettings(): string {
  const left = describeConfig().filter(({ name }) => !Object.values(GROUPS).some((group) => group.test(name)))
  if (left.length > 0) throw new Error(`No group for ${left.map(({ name }) => name).join(', ')}`)
  return Object.entries(GROUPS)
    .map(([title, names]) => `## ${title}\n\n${settingsLike(names)}`)
    .join('\n\n')
}

function settingsLike(names: RegExp): string {
  const rows = describeConfig().filter(({ name }) => names.test(name))
  return table(['setting', 'default', 'what it is'], rows.map(setting))
}

/** What goes well, of all that `docs/lifecycle.md` draws. */
export function lifecycleSketch(): string {
  const unusual = /: (adopted|\w+_failed)$|(?<!killing) --> gone|snapshotting --> suspended/
  const edges = stateDiagram()
    .split('\n')
    .filter((line) => !unusual.test(line))
  return `\`\`\`mermaid\n${edges.join('\n')}\n\`\`\``
}

/** What no object says of itself. */
const ABOUT: Record<BackendName, { page: string; is: string; needs: string }> = {
  local: { page: 'local-backend.md', is: 'processes on this machine; isolates nothing', needs: '' },
  docker: { page: 'docker-backend.md', is: 'a container, and one for its sidecar', needs: 'dockerode' },
  e2b: { page: 'e2b-backend.md', is: 'a microVM at E2B', needs: 'e2b' },
  'kubernetes-pod': { page: 'kubernetes-backend.md', is: 'a pod', needs: '@kubernetes/client-node' },
  'agent-sandbox': {
    page: 'agent-sandbox-backend.md',
    is: 'a pod with a volume, by the controller of that name',
    needs: '@kubernetes/client-node',
  },
  agentuity: { page: 'agentuity-backend.md', is: 'a sandbox at Agentuity', needs: '@agentuity/server' },
}

/** Each way to open a backend that changes what it can do. Nothing is asked of any provider. */
const WAYS: Record<BackendName, readonly { when?: string; docker?: object; kubernetes?: object }[]> = {
  local: [{}],
  docker: [
    {},
    { when: '`SANDMAN_DOCKER_PAUSE=disk`', docker: { pause: 'disk' } },
    { when: '`SANDMAN_DOCKER_PAUSE=checkpoint`', docker: { pause: 'checkpoint' } },
  ],
  e2b: [{}],
  'kubernetes-pod': [{}],
  'agent-sandbox': [{ kubernetes: { pause: 'disk' } }, { when: 'with pod snapshots', kubernetes: { pause: 'memory' } }],
  agentuity: [{}],
}

/** A row for each backend, or for each way that it can be set up; `docs` is where its pages are from here. */
export async function backendsTable(docs: string, { columns }: { columns: 'few' | 'all' }): Promise<string> {
  const opened = await Promise.all(
    BACKEND_NAMES.flatMap((name) => WAYS[name].map(async (way) => ({ name, way, backend: await open(name, way) }))),
  )
  await Promise.all(opened.map(({ backend }) => backend.close()))
  const rows = opened.map(({ name, way, backend }) => {
    const { canPause, canSnapshot } = BACKENDS[name]
    const told = abilitiesOf(backend)
    if (told.canPause !== canPause || told.canSnapshot !== canSnapshot)
      throw new Error(`${name} can do something else than the catalog says`)
    const few = [
      `[\`${name}\`](${docs}${ABOUT[name].page})${way.when ? `, ${way.when}` : ''}`,
      ...mainAbilities(name, backend),
    ]
    return columns === 'few' ? few : [...few, ...otherAbilities(name, backend)]
  })
  const few = ['backend', 'a sandbox is', 'a pause keeps', 'snapshot while it runs']
  const others = ['time-to-live set and renewed', 'cannot wake without its checkpoint', 'package']
  return table(columns === 'few' ? few : [...few, ...others], rows)
}

const yesOrNo = (is: boolean) => (is ? 'yes' : 'no')

function mainAbilities(name: BackendName, { pausing, snapshots }: Backend): string[] {
  const kept = { memory: 'memory and files', disk: 'files' }
  return [ABOUT[name].is, pausing === 'none' ? 'cannot pause' : kept[pausing.preserves], yesOrNo(snapshots !== 'none')]
}

function otherAbilities(name: BackendName, { pausing, lease }: Backend): string[] {
  const { needs } = ABOUT[name]
  return [
    yesOrNo(lease !== 'none'),
    pausing === 'none' ? '' : yesOrNo(pausing.needsCheckpoint),
    needs && `\`${needs}\``,
  ]
}

function open(name: BackendName, { docker, kubernetes }: { docker?: object; kubernetes?: object }): Promise<Backend> {
  return BACKENDS[name].open({
    fleet: 'docs',
    dataFolder: 'nowhere',
    docker,
    e2b: { apiKey: 'e2b_0000' },
    kubernetes: { connection: { server: 'http://127.0.0.1:1', token: '' }, namespace: 'docs', ...kubernetes },
    agentuity: { apiKey: 'sdk_0000', orgId: 'org_0000' },
  })
}

/** What stands above what is written by hand about an alert. */
export function alertPart({ when, forMinutes, severity, means, act }: Alert): string {
  const after = forMinutes > 0 ? `after ${duration(forMinutes * 60_000)}` : 'at once'
  return `${severity}, ${after}: \`${when}\`\n\n**Means:** ${means}\n\n**Do:** ${act}`
}

/** What one worker process does at a time, and how stubborn it is. */
export function queuesTable(): string {
  const rows = Object.values(QUEUES).map((queue: QueueDefinition) => {
    const { name, concurrency, attemptsMax, backoff, lockMs, everyMs } = queue
    const pause = backoff.kind === 'fixed' ? duration(backoff.delayMs) : `${duration(backoff.delayMs)}, doubling`
    return [
      `\`${name}\``,
      concurrency.toLocaleString('en'),
      attemptsMax === 1 ? '1' : `${attemptsMax}, ${pause}`,
      duration(lockMs),
      everyMs === undefined ? '' : duration(everyMs),
    ]
  })
  const head = ['queue', 'at a time in one worker', 'attempts, and the pause between', 'lock', 'made by itself every']
  return table(head, rows)
}
