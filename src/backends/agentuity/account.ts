import type { APIClient, Logger } from '@agentuity/server'
import { optionalPackage } from '../../optional-package.ts'
import { BackendError } from '../backend.ts'
import { hash } from '../hash.ts'

export type AgentuityOptions = {
  fleet: string
  /** What is left out is taken from the environment: `AGENTUITY_SDK_KEY`, `AGENTUITY_SANDBOX_URL`, `AGENTUITY_REGION`. */
  apiKey?: string | undefined
  url?: string | undefined
  region?: string | undefined
  /** The organization, where the key does not say it. */
  orgId?: string | undefined
  /** How long is waited for what. */
  patience?: Partial<AgentuityPatience> | undefined
}

export type AgentuityPatience = {
  /** For calls that Agentuity answers at once; those that make, pause, resume, copy or end a sandbox have longer. */
  requestMs: number
  /** For a list of checkpoints, which was seen to hang. */
  checkpointsMs: number
  /** How long what was said to be done may not be shown yet, of something that is on its way. */
  lagMs: number
  /** How long a new sandbox may be starting. */
  startingMs: number
  /** How long after a pause its checkpoint may still be written. Before that nothing is said to be missing. */
  settlingMs: number
  /** Between two tries of a resume that was refused. After the last one it is judged by its age. */
  refusedMs: readonly number[]
}

const PATIENCE: AgentuityPatience = {
  requestMs: 30_000,
  checkpointsMs: 5_000,
  lagMs: 15_000,
  startingMs: 90_000,
  settlingMs: 120_000,
  refusedMs: [250, 500, 1_000, 2_000, 4_000],
}

const DEFAULT_REGION = 'usc'

export type Sdk = typeof import('@agentuity/server')

/** An organization at Agentuity, as one fleet uses it. */
export type Account = {
  fleet: string
  sdk: Sdk
  orgId: string | undefined
  /** The same for everybody who has the same key, which it does not tell. */
  place: string
  patience: AgentuityPatience
  /** A client for one call, which ends with its signal. */
  client(signal: AbortSignal): APIClient
}

export async function openAccount(options: AgentuityOptions): Promise<Account> {
  const { fleet, orgId, patience } = options
  const sdk = await optionalPackage('@agentuity/server', 'The backend agentuity', () => import('@agentuity/server'))
  const apiKey = options.apiKey ?? sdk.getEnv('AGENTUITY_SDK_KEY')
  if (!apiKey)
    throw new BackendError(
      'provider_unauthorized',
      'Agentuity needs the key of an organization: set AGENTUITY_SDK_KEY.',
    )
  const region = options.region ?? sdk.getEnv('AGENTUITY_REGION') ?? DEFAULT_REGION
  const url = (options.url ?? sdk.getServiceUrls(region).sandbox).replace(/\/+$/, '')
  return {
    fleet,
    sdk,
    orgId,
    place: `agentuity-${hash([url, orgId, apiKey].join(' '))}`,
    patience: { ...PATIENCE, ...patience },
    client: (signal) => newClient(sdk, url, apiKey, signal),
  }
}

/** What it would say of its calls is said by whoever makes them. */
const logger: Logger = {
  trace() {},
  debug() {},
  info() {},
  warn() {},
  error() {},
  fatal(message: unknown): never {
    throw new Error(String(message))
  },
  child: () => logger,
}

function newClient(sdk: Sdk, url: string, apiKey: string, signal: AbortSignal): APIClient {
  // What is tried again is decided by who has the deadline: the SDK would make a second sandbox when the first answer was lost.
  const client = new sdk.APIClient(url, logger, apiKey, { maxRetries: 0, serviceUnavailableTimeoutMs: 0 })
  const request = client.request.bind(client)
  const rawGet = client.rawGet.bind(client)
  // Most functions of the SDK have no way to be given a signal.
  client.request = (method, endpoint, answer, body, shape, given, headers) =>
    request(method, endpoint, answer, body, shape, given ?? signal, headers)
  client.rawGet = (endpoint, given, headers) => rawGet(endpoint, given ?? signal, headers)
  return client
}
