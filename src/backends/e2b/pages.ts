import { z } from 'zod'
import type { Call, Found, ListedCheckpoint, ListedInstance, Listing, Owner } from '../backend.ts'
import { byAge, readPages } from '../pages.ts'
import type { Account } from './account.ts'
import { Listed, labelsOf, ownerOf } from './instance.ts'
import { fetchFrom } from './request.ts'
import { ownerOfSnapshot, Snapshot } from './snapshot-names.ts'

/** The most that E2B gives. */
const A_PAGE = 100

/** The oldest first: what is made meanwhile comes at the end, and moves nothing. */
async function pageOfSandboxes(
  account: Account,
  labels: Record<string, string>,
  cursor: string | undefined,
  call: Call,
) {
  // Encoded twice, because E2B decodes the whole, and then each part.
  const pairs = Object.entries(labels).map(([name, value]): [string, string] => [
    encodeURIComponent(name),
    encodeURIComponent(value),
  ])
  const metadata = new URLSearchParams(pairs).toString()
  const query = { metadata, order: 'asc' as const, limit: A_PAGE, ...(cursor !== undefined && { nextToken: cursor }) }
  return fetchFrom(account, call, z.array(Listed), (api, signal) =>
    api.GET('/v2/sandboxes', { params: { query: { ...query, state: ['running', 'paused'] } }, signal }),
  )
}

export async function pageOfSnapshots(
  account: Account,
  asked: { name?: string },
  cursor: string | undefined,
  call: Call,
) {
  const query = { ...asked, limit: A_PAGE, ...(cursor !== undefined && { nextToken: cursor }) }
  return fetchFrom(account, call, z.array(Snapshot), (api, signal) =>
    api.GET('/snapshots', { params: { query }, signal }),
  )
}

export async function listInstances(
  account: Account,
  cursor: string | undefined,
  call: Call,
): Promise<Listing<ListedInstance>> {
  const { data, next } = await pageOfSandboxes(account, labelsOf(account), cursor, call)
  const items = data.flatMap((listed) => {
    const owner = ownerOf(account, listed)
    return owner ? [{ ref: listed.sandboxID, ...owner }] : []
  })
  return { items, next }
}

export async function listCheckpoints(
  account: Account,
  cursor: string | undefined,
  call: Call,
): Promise<Listing<ListedCheckpoint>> {
  const { data, next } = await pageOfSnapshots(account, {}, cursor, call)
  const items = data.flatMap(({ snapshotID: ref }) => {
    const sandboxId = ownerOfSnapshot(account, ref)
    return sandboxId === undefined ? [] : [{ ref, sandboxId, kind: 'snapshot' as const }]
  })
  return { items, next }
}

/** Those that carry these labels, the oldest first. */
export async function findOwned(
  account: Account,
  owner: Partial<Owner>,
  call: Call,
): Promise<(Found & { born: string })[]> {
  const pages = readPages('E2B', (cursor) => pageOfSandboxes(account, labelsOf(account, owner), cursor, call))
  const found: (Found & { born: string })[] = []
  for await (const listed of pages) {
    const { sandboxId, life } = ownerOf(account, listed) ?? {}
    // Whoever does not understand the question may have answered with all there is.
    if (life === undefined || sandboxId !== owner.sandboxId || (owner.life ?? life) !== life) continue
    found.push({ ref: listed.sandboxID, life, born: listed.startedAt.toISOString() })
  }
  return found.sort(byAge)
}
