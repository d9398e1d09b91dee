import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Life } from '../src/backends/local/instance.ts'
import { findMarked } from './process-marks.ts'
import { FLEET, type Site } from './site.ts'

/** What a provider has, seen without any of the code that it is compared with. */
export type TrueInstance = {
  backend: string
  ref: string
  sandboxId: string
  life: string
  is: 'running' | 'suspended'
  /** Of what runs; of what sleeps, the checkpoint that it sleeps on. */
  incarnation: string | undefined
  checkpointRef: string | undefined
}

export type Truth = {
  instances: TrueInstance[]
  checkpoints: { backend: string; ref: string }[]
  /** Folders that are neither, and pieces of work that somebody has left. */
  remains: string[]
  /** Agents that run now, or stand still, by their tags. */
  agents: { pid: number; tag: string }[]
  /** How often each agent was started. */
  starts: Map<string, number>
}

export function startsFolder(site: Pick<Site, 'root'>): string {
  return path.join(site.root, 'starts')
}

export async function seeTruth(site: Site): Promise<Truth> {
  const [local, e2b, starts] = await Promise.all([seeLocal(site), seeE2b(site), countStarts(site)])
  return {
    instances: [...local.instances, ...e2b.instances],
    checkpoints: [...local.checkpoints, ...e2b.checkpoints],
    remains: local.remains,
    agents: findAgents(site),
    starts,
  }
}

type Seen = Pick<Truth, 'instances' | 'checkpoints' | 'remains'>

async function seeLocal({ root }: Site): Promise<Seen> {
  const home = path.join(root, 'data', 'sandboxes', FLEET)
  const [instances = [], checkpoints = []] = await Promise.all(
    ['instances', 'checkpoints'].map((part) => readdir(path.join(home, part)).catch(() => [] as string[])),
  )
  const isHidden = (name: string) => name.startsWith('.')
  const seen = await Promise.all(
    instances
      .filter((name) => !isHidden(name))
      .map(async (ref): Promise<TrueInstance> => {
        const [, sandboxId = '', life = ''] = ref.split('.')
        const lives = JSON.parse(await readFile(path.join(home, 'instances', ref, 'life.json'), 'utf8')) as Life
        return {
          backend: 'local',
          ref,
          sandboxId,
          life,
          is: lives.is === 'awake' ? 'running' : 'suspended',
          incarnation: lives.is === 'awake' ? lives.incarnation : undefined,
          checkpointRef: lives.is === 'asleep' ? lives.checkpointRef : undefined,
        }
      }),
  )
  return {
    instances: seen,
    checkpoints: checkpoints.filter((name) => !isHidden(name)).map((ref) => ({ backend: 'local', ref })),
    remains: [...instances, ...checkpoints].filter(isHidden),
  }
}

type ListedSandbox = { sandboxID: string; state: string; startedAt: string; metadata?: Record<string, string> }

async function seeE2b({ provider }: Site): Promise<Seen> {
  const sandboxes = await readAll<ListedSandbox>(provider, '/v2/sandboxes?state=running,paused')
  const snapshots = await readAll<{ snapshotID: string }>(provider, '/snapshots?')
  const paused = sandboxes.filter(({ state }) => state === 'paused')
  const pauseRef = ({ sandboxID, startedAt }: ListedSandbox) => `${sandboxID}@${new Date(startedAt).toISOString()}`
  return {
    instances: sandboxes.map((one) => ({
      backend: 'e2b',
      ref: one.sandboxID,
      sandboxId: one.metadata?.sandman_sandbox ?? '',
      life: one.metadata?.sandman_life ?? '',
      is: one.state === 'paused' ? 'suspended' : 'running',
      incarnation: one.state === 'paused' ? undefined : new Date(one.startedAt).toISOString(),
      checkpointRef: one.state === 'paused' ? pauseRef(one) : undefined,
    })),
    checkpoints: [...paused.map(pauseRef), ...snapshots.map(({ snapshotID }) => snapshotID)].map((ref) => ({
      backend: 'e2b',
      ref,
    })),
    remains: [],
  }
}

async function readAll<Item>(provider: Site['provider'], route: string): Promise<Item[]> {
  const items: Item[] = []
  for (let next: string | undefined = ''; next !== undefined; ) {
    const page = await provider.ask('GET', `${route}&limit=100${next && `&nextToken=${encodeURIComponent(next)}`}`)
    if (page.status !== 200) throw new Error(`The provider itself answered ${route} with ${page.status}`)
    items.push(...(page.body as Item[]))
    next = page.next
  }
  return items
}

async function countStarts(site: Site): Promise<Map<string, number>> {
  const folder = startsFolder(site)
  const tags = await readdir(folder)
  const counted = await Promise.all(
    tags.map(async (tag) => {
      const text = await readFile(path.join(folder, tag), 'utf8')
      return [tag, text.split('\n').filter((line) => line !== '').length] as const
    }),
  )
  return new Map(counted)
}

/** By their command, whose last words are the folder of starts and their tag. */
function findAgents(site: Site): Truth['agents'] {
  const folder = startsFolder(site)
  return findMarked(folder).flatMap(({ pid, command }) => {
    const tag = command.split(`agent ${folder} `)[1]?.split(' ')[0]
    return tag === undefined ? [] : [{ pid, tag }]
  })
}
