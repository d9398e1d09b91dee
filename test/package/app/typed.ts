/** Never run: what an app in TypeScript says to Sandman, and what the compiler makes of it. */
import {
  abilitiesOf,
  type Backend,
  BackendError,
  createFleet,
  createWorker,
  ERRORS,
  FAILURES,
  type Fleet,
  isSandmanError,
  type Sandbox,
} from 'sandman'
import { conformance, startWire } from 'sandman/conformance'
import { agentStatus, type Shell } from 'sandman/shell'
import { createApp } from 'sandman/web'

const fleet: Fleet = createFleet({ databaseUrl: 'postgres://localhost/x' })

export const answer: Response | Promise<Response> = createApp(fleet).fetch(new Request('http://localhost/'))

export async function pause(id: string): Promise<Sandbox['state']> {
  const { operation, sandbox } = await fleet.pause(id, { wait: '10s' })
  if (operation.error?.errorType === 'checkpoint_missing')
    throw new BackendError('provider_unauthorized', 'as an example')
  // @ts-expect-error there is no such type of error, and a misspelt one must not pass
  if (operation.error?.errorType === 'checkpoint_mising') throw operation.error
  return sandbox.state
}

// @ts-expect-error nothing else is read
export const misspelt = fleet.spawn({ backend: 'local', metadatum: {} })

export const used = [abilitiesOf, createWorker, ERRORS, FAILURES, isSandmanError, conformance, startWire, agentStatus]
export type Mine = Backend & { shell: Shell }
