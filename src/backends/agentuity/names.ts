import { BackendError, type Owner } from '../backend.ts'
import { hash } from '../hash.ts'
import { FLEET, LIFE, SANDBOX } from '../metadata-labels.ts'
import type { Account } from './account.ts'

/** Without `-`, which keeps our parts apart. */
const PART = /^[a-z0-9_]+$/
const OURS = /^sandman-([0-9a-f]{12})-/

type Named = { name?: string | undefined; description?: string | undefined }

/** Whoever can be asked about at Agentuity: anything else would be another page of its API. */
export function isSandboxId(ref: string): boolean {
  return /^sbx_[A-Za-z0-9_-]+$/.test(ref)
}

export function isSnapshotId(ref: string): boolean {
  return /^[a-z]+_[A-Za-z0-9]+$/.test(ref)
}

function prefix({ fleet }: Account): string {
  return `sandman-${hash(fleet)}-`
}

function requirePart(part: string): string {
  if (PART.test(part)) return part
  throw new BackendError('spec_invalid', `${JSON.stringify(part)} cannot be part of a name at Agentuity`)
}

/**
 * Lists have no metadata, but names and descriptions: the name is the fleet's and the sandbox's, by which Agentuity finds it, and
 * the description its life.
 */
export function labelsOf(account: Account, { sandboxId, life }: Owner) {
  return {
    name: nameOf(account, sandboxId),
    description: requirePart(life),
    metadata: { [FLEET]: account.fleet, [SANDBOX]: sandboxId, [LIFE]: life },
  }
}

export function nameOf(account: Account, sandboxId: string): string {
  return `${prefix(account)}${requirePart(sandboxId)}`
}

/** Whose a sandbox is that a list shows; undefined where it is not of this fleet. */
export function listedOwner(account: Account, { name = '', description = '' }: Named): Owner | undefined {
  const sandboxId = name.startsWith(prefix(account)) ? name.slice(prefix(account).length) : ''
  return PART.test(sandboxId) && PART.test(description) ? { sandboxId, life: description } : undefined
}

/** What its labels say when it is asked for itself. `elsewhere`: it is another fleet's, and not to be touched. */
export function ownerOf(
  account: Account,
  { metadata = {}, ...named }: Named & { metadata?: Record<string, unknown> | undefined },
): { owner: Owner | undefined; elsewhere: string | undefined } {
  const { [FLEET]: fleet, [SANDBOX]: sandboxId, [LIFE]: life } = metadata
  if (fleet !== undefined && fleet !== account.fleet) return { owner: undefined, elsewhere: String(fleet) }
  // Right after it was made, Agentuity may know no more of it than its name.
  const [, hashed] = OURS.exec(named.name ?? '') ?? []
  if (hashed !== undefined && hashed !== hash(account.fleet)) return { owner: undefined, elsewhere: hashed }
  const isLabelled = typeof sandboxId === 'string' && typeof life === 'string'
  return { owner: isLabelled ? { sandboxId, life } : listedOwner(account, named), elsewhere: undefined }
}

/** A snapshot carries no labels either. Of an adopted sandbox nobody knows whose it is; its snapshots are in no list. */
export function snapshotName(account: Account, ref: string, owner: Owner | undefined, key: string): string {
  const parts = owner ? [owner.sandboxId, key] : ['adopted', ref.replaceAll('-', '_'), key]
  return `${prefix(account)}${parts.map(requirePart).join('-')}`
}

/** The sandbox that a snapshot of this fleet is of. */
export function ownerOfSnapshot(account: Account, name: string): string | undefined {
  if (!isOurs(account, name)) return undefined
  const [, sandboxId] = /^([a-z0-9_]+)-[a-z0-9_]+$/.exec(name.slice(prefix(account).length)) ?? []
  return sandboxId
}

export function isOurs(account: Account, name: string): boolean {
  return name.startsWith(prefix(account))
}
