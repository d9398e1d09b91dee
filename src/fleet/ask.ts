import { type Requested, request, requestSpawn, type SandboxRequest, type SpawnRequest } from '../db/request.ts'
import { ring } from './bell.ts'

type Deps = Parameters<typeof ring>[0]
type Given<Asked> = Omit<Asked, 'fleet' | 'clock'>

/** Asks something of a sandbox: first the row, and only then the bell. Once the row is there, the request is accepted. */
export async function ask(deps: Deps, asked: Given<SandboxRequest>): Promise<Requested> {
  return ringFor(deps, await request(deps.db, { ...asked, fleet: deps.fleet, clock: deps.clock }))
}

export async function askToSpawn(deps: Deps, asked: Given<SpawnRequest>): Promise<Requested> {
  return ringFor(deps, await requestSpawn(deps.db, { ...asked, fleet: deps.fleet, clock: deps.clock }))
}

async function ringFor(deps: Deps, requested: Requested): Promise<Requested> {
  const { id, kind } = requested.operation
  if (requested.answer === 'work') await ring(deps, { operationId: id, kind })
  return requested
}
