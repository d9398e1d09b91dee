import { z } from 'zod'
import { BackendError } from '../backend.ts'
import { hash } from '../hash.ts'
import type { Account } from './account.ts'
import type { Instance } from './instance.ts'

/** As E2B lists it: the name, below that of its team, with a tag. */
export const Snapshot = z.object({ snapshotID: z.string().min(1) })

/** E2B takes small letters, digits, `-` and `_`, of which `-` keeps our parts apart. */
const PART = /^[a-z0-9_]+$/

/**
 * A snapshot carries no labels, so its name says whose it is: the fleet, the sandbox, and the key by which it was asked for. Of an
 * adopted sandbox nobody knows whose it is; its snapshots are in no list, and nobody sweeps them away.
 */
export function snapshotName({ fleet }: Account, { ref, owner }: Instance, key: string): string {
  const parts = owner ? [owner.sandboxId, key] : ['adopted', ref, key]
  for (const part of parts)
    if (!PART.test(part))
      throw new BackendError('spec_invalid', `${JSON.stringify(part)} cannot be part of the name of a snapshot at E2B`)
  return ['sandman', hash(fleet), ...parts].join('-')
}

/** The sandbox that a snapshot of this fleet is of. */
export function ownerOfSnapshot(account: Account, snapshotId: string): string | undefined {
  const [, sandboxId] =
    nameOf(snapshotId).match(new RegExp(`^sandman-${hash(account.fleet)}-([a-z0-9_]+)-[a-z0-9_]+$`)) ?? []
  return sandboxId
}

export function isOurs(account: Account, snapshotId: string): boolean {
  return nameOf(snapshotId).startsWith(`sandman-${hash(account.fleet)}-`)
}

/** Without team and tag. */
export function nameOf(snapshotId: string): string {
  return snapshotId.replace(/^.*\//, '').replace(/:[^:]*$/, '')
}
