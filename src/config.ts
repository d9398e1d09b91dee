import path from 'node:path'
import { z } from 'zod'
import { BACKEND_NAMES, type BackendName } from './backends/names.ts'
import { check } from './checked.ts'
import {
  count,
  fleetName,
  graceMs,
  isLoopback,
  limit,
  pairs,
  podSpec,
  port,
  postgresUrl,
  printRate,
  type Rate,
  rate,
  redisUrl,
  someOf,
  type Token,
  tokens,
} from './config-values.ts'
import { printDuration } from './duration.ts'
import { SandmanError } from './errors.ts'
import { ENDING_MS, TRACED_ENDING_MS } from './grace.ts'
import { nearest } from './nearest.ts'
import { QUEUE_NAMES, type QueueName } from './queues/names.ts'
import type { Limits } from './sandbox/limits.ts'

export const RATE_LIMIT: Rate = { count: 200, perMs: 1_000 }
const GRACE_MS = 25_000
const BACKENDS: BackendName[] = ['local']
const DAY_MS = 86_400_000
const KEEP_DAYS = { events: 90, output: 30, keys: 7 }
const KEPT_USUALLY = Object.entries(KEEP_DAYS).map(([what, days]) => `${what}=${days}d`)

const ttl = pairs<number | 'kill'>(
  { idle: limit, hard: limit, retention: limit, if_unsupported: (text) => (text === 'kill' ? text : undefined) },
  'idle=30m, hard=7d, retention=30d, if_unsupported=kill (durations from 1s to 10 years)',
)

const keep = pairs(
  { events: limit, output: limit, keys: limit },
  `${KEPT_USUALLY.join(', ')} (durations from 1s to 10 years)`,
)

/** Everything the environment can say, in the order in which docs/configuration.md lists it. */
const Environment = z.object({
  DATABASE_URL: postgresUrl
    .optional()
    .describe('Postgres that holds the truth. Without it, `npm start` brings its own.'),
  REDIS_URL: redisUrl
    .optional()
    .describe(
      'Redis for the queues: `redis://`, `redis+cluster://` or `redis+sentinel://`. Without it, the queues live in Postgres.',
    ),
  PORT: port.default(3000).describe('Port of the web process. 0 takes a free one.'),
  SANDMAN_HOST: z
    .string()
    .min(1)
    .optional()
    .describe('Address the web process listens on. Defaults to 127.0.0.1, and to 0.0.0.0 once there are tokens.'),
  SANDMAN_FLEET: fleetName
    .default('default')
    .describe(
      'Name of this deployment. Fleets share a database, a Redis and provider accounts without seeing each other.',
    ),
  SANDMAN_TOKENS: tokens
    .default([])
    .describe(
      'Who may call: `name:scope:secret`, separated by commas; scopes are read, operate, admin. Without it, only this machine may.',
    ),
  SANDMAN_RATE_LIMIT: rate
    .default(RATE_LIMIT)
    .describe(
      'How often a token may ask each web process: `200/s` is 200 at once and then evenly, `6000/m` is 6000 at once; `off` leaves it to somebody else.',
    ),
  SANDMAN_PROXIES: z
    .string()
    .regex(/^\d$/, 'must be a number from 0 to 9')
    .transform(Number)
    .default(0)
    .describe(
      'How many proxies are in front of the web process; what they say in `X-Forwarded-…` is believed, and nothing else there.',
    ),
  SANDMAN_QUEUES: someOf('queue', QUEUE_NAMES)
    .default([...QUEUE_NAMES])
    .describe('Queues that this worker takes work from, separated by commas.'),
  SANDMAN_BACKENDS: someOf('backend', BACKEND_NAMES)
    .default(BACKENDS)
    .describe(`Backends that this worker can talk to, separated by commas; there are ${BACKEND_NAMES.join(', ')}.`),
  SANDMAN_DOCKER_PAUSE: z
    .enum(['freeze', 'disk', 'checkpoint'])
    .default('freeze')
    .describe(
      'How a container is put to sleep: frozen in memory, kept as an image, or written to disk with its memory where the engine can.',
    ),
  SANDMAN_DOCKER_NETWORK: z
    .string()
    .min(1)
    .optional()
    .describe("Network of the engine that containers are put into. Defaults to the engine's own."),
  DOCKER_HOST: z
    .string()
    .regex(/^(unix|tcp|http|https|ssh|npipe):/, 'must be a URL such as unix:///var/run/docker.sock or tcp://host:2376')
    .optional()
    .describe('Where the Docker engine is. Defaults to the usual socket.'),
  E2B_API_KEY: z.string().min(1).optional().describe('Key of the E2B account, for the backend e2b.'),
  E2B_API_URL: z.url().optional().describe('Where E2B is, if not at its usual address.'),
  E2B_SANDBOX_URL: z
    .url()
    .optional()
    .describe('Where the sandboxes of that E2B are reached, if not by their names below E2B_DOMAIN.'),
  E2B_DOMAIN: z.string().min(1).optional().describe('Domain of an E2B of your own.'),
  KUBECONFIG: z
    .string()
    .min(1)
    .optional()
    .describe(
      'File that says where the Kubernetes cluster is. Defaults to the usual one, or the cluster that a worker runs in.',
    ),
  SANDMAN_KUBERNETES_NAMESPACE: z
    .string()
    .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be the name of a namespace')
    .optional()
    .describe("Namespace that sandboxes are in. Defaults to that of the kubeconfig's context."),
  SANDMAN_KUBERNETES_POD: podSpec
    .optional()
    .describe(
      'What the spec of every pod has besides, as JSON: `nodeSelector`, `tolerations`, `imagePullSecrets`, `runtimeClassName` and the like.',
    ),
  SANDMAN_KUBERNETES_STORAGE: z
    .string()
    .regex(
      /^\d+(\.\d+)?([KMGT]i?)(:[a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$/,
      'must be a size such as 10Gi, or 10Gi:name-of-a-storage-class',
    )
    .default('1Gi')
    .describe(
      'Volume that keeps the files of an agent-sandbox while it sleeps: its size, and behind a colon its storage class.',
    ),
  SANDMAN_KUBERNETES_PAUSE: z
    .enum(['auto', 'disk', 'memory'])
    .default('auto')
    .describe(
      'What a pause of an agent-sandbox keeps: its volume, or its memory, too, which needs a cluster with pod snapshots. By default whatever the cluster can.',
    ),
  SANDMAN_KUBERNETES_POOL: z
    .string()
    .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be the name of a warm pool')
    .optional()
    .describe('Warm pool that an agent-sandbox without a template of its own is claimed from.'),
  SANDMAN_KUBERNETES_PREVIEW_URL: z
    .string()
    .refine(
      (text) => URL.canParse(text.replaceAll(/\{\w+\}/g, '1')),
      'must be a URL such as https://{port}-{name}.preview.example.com',
    )
    .optional()
    .describe(
      "Where a port of a pod is reached from outside, with `{name}`, `{address}` and `{port}`. Defaults to the pod's address in the cluster.",
    ),
  AGENTUITY_SDK_KEY: z
    .string()
    .min(1)
    .optional()
    .describe('Key of the organization at Agentuity, for the backend agentuity.'),
  AGENTUITY_SANDBOX_URL: z
    .url()
    .optional()
    .describe('Where its sandboxes are, if not at the usual address of the region.'),
  AGENTUITY_REGION: z.string().min(1).optional().describe('Region of Agentuity. Defaults to usc.'),
  AGENTUITY_CLOUD_ORG_ID: z
    .string()
    .min(1)
    .optional()
    .describe('Organization at Agentuity, for a key that is of several.'),
  SANDMAN_TTL: ttl
    .default({})
    .describe(
      'Limits for sandboxes that have none of their own, such as `idle=30m,hard=7d,retention=30d`; `if_unsupported=kill` ends an idle one that cannot be paused. Without it, nothing ends by itself.',
    ),
  SANDMAN_SWEEPER: z
    .enum(['act', 'report'])
    .default('act')
    .describe('Whether this worker does something about what the sweeper finds, or only writes it down.'),
  SANDMAN_DESTROY_MAX: count
    .default(100)
    .describe('How much one tick of the reaper, or of the sweeper, may end or delete at most.'),
  SANDMAN_KEEP: keep
    .default({})
    .describe('How long history, the output of executions that have ended, and idempotency keys are kept.'),
  SANDMAN_GRACE: graceMs
    .default(GRACE_MS)
    .describe(
      `How long a process may take to stop after SIGTERM, up to 1h. Work that is still in flight ${ENDING_MS / 1_000} s before that is handed back; with traces, ${TRACED_ENDING_MS / 1_000} s.`,
    ),
  SANDMAN_DATA: z
    .string()
    .min(1)
    .default('.sandman')
    .describe('Folder for the embedded Postgres, and for the sandboxes of the local backend.'),
  OTEL_EXPORTER_OTLP_ENDPOINT: z
    .url()
    .optional()
    .describe('Collector of OpenTelemetry that traces are sent to. Needs the package `@opentelemetry/sdk-node`.'),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: z.url().optional().describe('The same, for traces alone.'),
  OTEL_EXPORTER_OTLP_HEADERS: z
    .string()
    .min(1)
    .optional()
    .describe('What the collector is told with all of them, such as `api-key=…`, separated by commas. Never shown.'),
  OTEL_TRACES_EXPORTER: z
    .string()
    .min(1)
    .optional()
    .describe('How traces are sent, if not by OTLP; `none` sends none, `console` prints them.'),
  OTEL_SERVICE_NAME: z
    .string()
    .min(1)
    .optional()
    .describe('What traces call this process. Defaults to `sandman-web` and `sandman-worker`.'),
  OTEL_SDK_DISABLED: z.string().optional().describe('`true` sends no traces, whatever else is set.'),
  LOG_LEVEL: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'])
    .default('info')
    .describe('Least important log lines to print.'),
})

/** How long what is not needed any more is kept. */
export type Keep = { eventsMs: number; outputMs: number; keysMs: number }

export type Config = {
  databaseUrl: string | undefined
  redisUrl: string | undefined
  port: number
  host: string
  fleet: string
  tokens: Token[]
  rateLimit: Rate | 'off'
  proxies: number
  queues: QueueName[]
  backends: BackendName[]
  docker: { pause: 'freeze' | 'disk' | 'checkpoint'; network: string | undefined }
  e2b: {
    apiKey: string | undefined
    apiUrl: string | undefined
    domain: string | undefined
    sandboxUrl: string | undefined
  }
  kubernetes: {
    namespace: string | undefined
    podSpec: Record<string, unknown> | undefined
    storage: string
    pause: 'disk' | 'memory' | undefined
    pool: string | undefined
    previewUrl: string | undefined
  }
  agentuity: {
    apiKey: string | undefined
    url: string | undefined
    region: string | undefined
    orgId: string | undefined
  }
  ttl: Limits
  sweeper: 'act' | 'report'
  destroyMax: number
  keep: Keep
  graceMs: number
  dataFolder: string
  tracing: { isWanted: boolean; serviceName: string | undefined; headers: string | undefined }
  logLevel: z.output<typeof Environment>['LOG_LEVEL']
}

/** Reads the whole environment, or throws one error that lists every problem by name. */
export function parseConfig(environment: Record<string, string | undefined>): Config {
  // An empty variable is how a Procfile, compose file or shell says "not set".
  const given = Object.fromEntries(
    Object.entries(environment).filter(([, value]) => value !== undefined && value !== ''),
  )
  const parsed = check(Environment, given, '(environment)')
  const problems = [
    ...(parsed.problems ?? []).map(({ field, message }) => `${field}: ${message}`),
    ...misspelt(Object.keys(given)),
    ...contradictions(given, parsed.value),
  ]
  if (!parsed.value || problems.length > 0) throw invalid([...new Set(problems)])
  return configOf(parsed.value)
}

type Settings = z.output<typeof Environment>

function invalid(problems: string[]): SandmanError {
  const many = problems.length === 1 ? 'a problem' : `${problems.length} problems`
  const list = problems.map((problem) => `  ${problem}`).join('\n')
  return new SandmanError('config_invalid', `The environment has ${many}:\n${list}`, { details: { problems } })
}

/** Settings that are fine by themselves, and not together. */
function contradictions(given: Record<string, string | undefined>, settings: Settings | undefined): string[] {
  const problems: string[] = []
  if (settings?.SANDMAN_HOST && !isLoopback(settings.SANDMAN_HOST) && settings.SANDMAN_TOKENS.length === 0) {
    problems.push(
      `SANDMAN_HOST: ${settings.SANDMAN_HOST} is not this machine alone, and without SANDMAN_TOKENS anybody could call; set tokens, or leave it out`,
    )
  }
  if (given.E2B_API_URL && !given.E2B_SANDBOX_URL && !given.E2B_DOMAIN) {
    problems.push(
      'E2B_API_URL: is not the usual one, and its sandboxes would be looked for at the usual place; set E2B_DOMAIN or E2B_SANDBOX_URL, too',
    )
  }
  return problems
}

/** What the environment says, in the words of the code. */
function configOf(env: Settings): Config {
  return {
    databaseUrl: env.DATABASE_URL,
    redisUrl: env.REDIS_URL,
    port: env.PORT,
    host: env.SANDMAN_HOST ?? (env.SANDMAN_TOKENS.length > 0 ? '0.0.0.0' : '127.0.0.1'),
    fleet: env.SANDMAN_FLEET,
    tokens: env.SANDMAN_TOKENS,
    rateLimit: env.SANDMAN_RATE_LIMIT,
    proxies: env.SANDMAN_PROXIES,
    queues: env.SANDMAN_QUEUES,
    backends: env.SANDMAN_BACKENDS,
    docker: { pause: env.SANDMAN_DOCKER_PAUSE, network: env.SANDMAN_DOCKER_NETWORK },
    e2b: { apiKey: env.E2B_API_KEY, apiUrl: env.E2B_API_URL, domain: env.E2B_DOMAIN, sandboxUrl: env.E2B_SANDBOX_URL },
    kubernetes: {
      namespace: env.SANDMAN_KUBERNETES_NAMESPACE,
      podSpec: env.SANDMAN_KUBERNETES_POD,
      storage: env.SANDMAN_KUBERNETES_STORAGE,
      pause: env.SANDMAN_KUBERNETES_PAUSE === 'auto' ? undefined : env.SANDMAN_KUBERNETES_PAUSE,
      pool: env.SANDMAN_KUBERNETES_POOL,
      previewUrl: env.SANDMAN_KUBERNETES_PREVIEW_URL,
    },
    agentuity: {
      apiKey: env.AGENTUITY_SDK_KEY,
      url: env.AGENTUITY_SANDBOX_URL,
      region: env.AGENTUITY_REGION,
      orgId: env.AGENTUITY_CLOUD_ORG_ID,
    },
    ttl: {
      idleMs: env.SANDMAN_TTL.idle as number | undefined,
      hardMs: env.SANDMAN_TTL.hard as number | undefined,
      retentionMs: env.SANDMAN_TTL.retention as number | undefined,
      ifUnsupported: env.SANDMAN_TTL.if_unsupported as 'kill' | undefined,
    },
    sweeper: env.SANDMAN_SWEEPER,
    destroyMax: env.SANDMAN_DESTROY_MAX,
    keep: {
      eventsMs: env.SANDMAN_KEEP.events ?? KEEP_DAYS.events * DAY_MS,
      outputMs: env.SANDMAN_KEEP.output ?? KEEP_DAYS.output * DAY_MS,
      keysMs: env.SANDMAN_KEEP.keys ?? KEEP_DAYS.keys * DAY_MS,
    },
    graceMs: env.SANDMAN_GRACE,
    dataFolder: path.resolve(env.SANDMAN_DATA),
    tracing: {
      isWanted: wantsTraces(env),
      serviceName: env.OTEL_SERVICE_NAME,
      headers: env.OTEL_EXPORTER_OTLP_HEADERS,
    },
    logLevel: env.LOG_LEVEL,
  }
}

function wantsTraces(env: Settings): boolean {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || env.OTEL_TRACES_EXPORTER === 'none') return false
  const { OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_TRACES_EXPORTER } = env
  return (OTEL_EXPORTER_OTLP_ENDPOINT ?? OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? OTEL_TRACES_EXPORTER) !== undefined
}

/** The tables of the README and of docs/configuration.md, and `.env.example`, are printed from the schema, and a test fails when they are stale. */
export function describeConfig(): { name: string; description: string; defaultsTo: string }[] {
  const printable: Record<string, string> = {
    SANDMAN_QUEUES: QUEUE_NAMES.join(','),
    SANDMAN_BACKENDS: BACKENDS.join(','),
    SANDMAN_GRACE: printDuration(GRACE_MS),
    SANDMAN_TOKENS: '',
    SANDMAN_RATE_LIMIT: printRate(RATE_LIMIT),
    SANDMAN_TTL: '',
    SANDMAN_KEEP: KEPT_USUALLY.join(','),
  }
  return Object.entries(Environment.shape).map(([name, schema]) => ({
    name,
    description: schema.description ?? '',
    defaultsTo: printable[name] ?? (schema instanceof z.ZodDefault ? String(schema.def.defaultValue) : ''),
  }))
}

/** A variable of ours that nobody reads is a typing error, and silently ignoring it costs somebody an evening. */
function misspelt(names: string[]): string[] {
  const known = Object.keys(Environment.shape)
  return names
    .filter((name) => name.startsWith('SANDMAN_') && !name.startsWith('SANDMAN_TEST_') && !known.includes(name))
    .map((name) => {
      const meant = nearest(name, known)
      return meant ? `${name}: is not a setting; did you mean ${meant}?` : `${name}: is not a setting`
    })
}
