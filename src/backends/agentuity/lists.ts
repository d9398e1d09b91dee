import type { Call, Found, ListedCheckpoint, ListedInstance, Listing } from '../backend.ts'
import { byAge, readPages } from '../pages.ts'
import type { Account } from './account.ts'
import { listedOwner, nameOf, ownerOfSnapshot } from './names.ts'
import { ask } from './request.ts'

/** The most that Agentuity gives. */
const A_PAGE = 100

const DEAD = ['terminated', 'failed']

/** The oldest first: what is made meanwhile comes at the end, and moves nothing. */
async function pageOfSandboxes(account: Account, asked: { name?: string }, cursor: string | undefined, call: Call) {
  const offset = Number(cursor ?? 0)
  const page = { ...asked, limit: A_PAGE, offset, sort: 'created', direction: 'asc' } as const
  const { sandboxes, total } = await ask(account, call, (sdk, client, common) =>
    sdk.sandboxList(client, { ...common, ...page }),
  )
  const data = sandboxes.filter(({ status }) => status !== 'deleted')
  return { data, next: next(offset, sandboxes.length, total) }
}

export async function pageOfSnapshots(
  account: Account,
  asked: { sandboxId?: string },
  cursor: string | undefined,
  call: Call,
) {
  const offset = Number(cursor ?? 0)
  const page = { ...asked, limit: A_PAGE, offset, sort: 'created', direction: 'asc' } as const
  const { snapshots, total } = await ask(account, call, (sdk, client, common) =>
    sdk.snapshotList(client, { ...common, ...page }),
  )
  return { data: snapshots, next: next(offset, snapshots.length, total) }
}

function next(offset: number, shown: number, total: number): string | undefined {
  return shown > 0 && offset + shown < total ? String(offset + shown) : undefined
}

export async function listInstances(
  account: Account,
  cursor: string | undefined,
  call: Call,
): Promise<Listing<ListedInstance>> {
  const { data, next } = await pageOfSandboxes(account, {}, cursor, call)
  const items = data.flatMap(({ sandboxId: ref, status, ...named }): ListedInstance[] => {
    const owner = listedOwner(account, named)
    return owner ? [{ ref, ...owner, ...(DEAD.includes(status) && { isLost: true as const }) }] : []
  })
  return { items, next }
}

export async function listCheckpoints(
  account: Account,
  cursor: string | undefined,
  call: Call,
): Promise<Listing<ListedCheckpoint>> {
  const { data, next } = await pageOfSnapshots(account, {}, cursor, call)
  const items = data.flatMap(({ snapshotId: ref, name }) => {
    const sandboxId = ownerOfSnapshot(account, name)
    return sandboxId === undefined ? [] : [{ ref, sandboxId, kind: 'snapshot' as const }]
  })
  return { items, next }
}

/** Those that carry this name, of one life or of all, the oldest first. */
export async function findOwned(
  account: Account,
  owner: { sandboxId: string; life?: string },
  call: Call,
): Promise<(Found & { born: string; isDead: boolean })[]> {
  const name = nameOf(account, owner.sandboxId)
  const found: (Found & { born: string; isDead: boolean })[] = []
  for await (const listed of readPages('Agentuity', (cursor) => pageOfSandboxes(account, { name }, cursor, call))) {
    const { sandboxId: ref, createdAt: born, status } = listed
    const { sandboxId, life } = listedOwner(account, listed) ?? {}
    // A question for a name may be answered with all that begin like it.
    if (life === undefined || sandboxId !== owner.sandboxId || (owner.life ?? life) !== life) continue
    found.push({ ref, life, born, isDead: DEAD.includes(status) })
  }
  return found.sort(byAge)
}
