import { z } from 'zod'
import {
  BackendError,
  type Call,
  type Found,
  type ListedCheckpoint,
  type ListedInstance,
  type Listing,
  type Owner,
} from '../backend.ts'
import type { Account } from './account.ts'
import { Listed, labelsOf, ownerOf } from './instance.ts'
import { fetchFrom } from './request.ts'
import { ownerOfSnapshot, Snapshot } from './snapshot-names.ts'

/** The most that E2B gives. */
const A_PAGE = 100

/** Of one sandbox, or of one name, there are a few. More pages than this is a list that does not end. */
const PAGES_MAX = 100

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
  const pages = readPages((cursor) => pageOfSandboxes(account, labelsOf(account, owner), cursor, call))
  const found: (Found & { born: string })[] = []
  for await (const listed of pages) {
    const { sandboxId, life } = ownerOf(account, listed) ?? {}
    // Whoever does not understand the question may have answered with all there is.
    if (life === undefined || sandboxId !== owner.sandboxId || (owner.life ?? life) !== life) continue
    found.push({ ref: listed.sandboxID, life, born: listed.startedAt.toISOString() })
  }
  return found.sort(byAge)
}

/** The same order for whoever compares them. */
export function byAge(a: { ref: string; born: string }, b: { ref: string; born: string }): number {
  return `${a.born} ${a.ref}` < `${b.born} ${b.ref}` ? -1 : 1
}

/** All that the pages have, one after the other. */
export async function* readPages<T>(
  page: (cursor: string | undefined) => Promise<{ data: T[]; next: string | undefined }>,
) {
  let cursor: string | undefined
  for (let pages = 0; pages < PAGES_MAX; pages++) {
    const { data, next } = await page(cursor)
    yield* data
    if (next === undefined) return
    cursor = next
  }
  throw new BackendError('sandbox_unreachable', `A list of E2B does not end: it has more than ${PAGES_MAX} pages`)
}
