import type { ApiClient, ConnectionConfig } from 'e2b'
import { optionalPackage } from '../../optional-package.ts'
import { BackendError } from '../backend.ts'
import { hash } from '../hash.ts'

export type E2bOptions = {
  fleet: string
  /** What is left out the SDK takes from the environment: `E2B_API_KEY`, `E2B_API_URL`, `E2B_DOMAIN`. */
  apiKey?: string | undefined
  apiUrl?: string | undefined
  domain?: string | undefined
  /** Where the sandboxes themselves are reached, if not at their usual addresses. */
  sandboxUrl?: string | undefined
  /** For calls that E2B answers at once; those that pause, resume, make or copy a sandbox have longer. Defaults to 30 s. */
  requestTimeoutMs?: number | undefined
  /** Where a port of a sandbox is reached. Defaults to what E2B says. */
  previewUrl?: ((ref: string, port: number) => string) | undefined
}

type Sdk = Pick<typeof import('e2b'), 'Sandbox' | 'CommandExitError'>

/** An account at E2B, as one fleet uses it. */
export type Account = {
  fleet: string
  sdk: Sdk
  config: ConnectionConfig
  api: ApiClient['api']
  /** The same for everybody who has the same key, which it does not tell. */
  place: string
  requestTimeoutMs: number
  previewUrl: E2bOptions['previewUrl']
}

const REQUEST_TIMEOUT_MS = 30_000

export async function openAccount(options: E2bOptions): Promise<Account> {
  const { fleet, apiKey, apiUrl, domain, sandboxUrl, requestTimeoutMs = REQUEST_TIMEOUT_MS, previewUrl } = options
  const sdk = await optionalPackage('e2b', 'The backend e2b', () => import('e2b'))
  const config = new sdk.ConnectionConfig({
    ...(apiKey !== undefined && { apiKey }),
    ...(apiUrl !== undefined && { apiUrl }),
    ...(domain !== undefined && { domain }),
    ...(sandboxUrl !== undefined && { sandboxUrl }),
    requestTimeoutMs,
    // What is tried again is decided by who has the deadline. And with `debug` the SDK would only pretend that there are
    // sandboxes.
    retries: 0,
    debug: false,
  })
  if (!config.apiKey)
    throw new BackendError('provider_unauthorized', 'E2B needs the key of an account: set E2B_API_KEY.')
  const { api } = new sdk.ApiClient(config)
  const place = `e2b-${hash(`${config.apiUrl} ${config.apiKey}`)}`
  return { fleet, sdk, config, api, place, requestTimeoutMs, previewUrl }
}
