import { notFound, type SandmanError } from '../../errors.ts'
import { type Identified, kindOfId } from '../../sandbox/ids.ts'

const AN = {
  sandbox: 'a sandbox',
  operation: 'an operation',
  checkpoint: 'a checkpoint',
  execution: 'an execution',
} as const satisfies Record<Identified, string>

/** There is nothing of that kind with that id. One that was copied from the wrong line is of another kind, and its prefix tells. */
export function unknownId(what: Exclude<Identified, 'checkpoint'>, id: string, fleet: string): SandmanError {
  const kind = kindOfId(String(id)) // not everybody who calls has types
  return notFound(what, id, fleet, kind && kind !== what ? `this is the id of ${AN[kind]}` : undefined)
}
