import type { Cloud, Fate } from './cloud.ts'
import type { Shows } from './faults.ts'
import { listed, listSandboxes, page } from './lists.ts'
import { asDetail, asSandbox, type Listed, type Snapshot } from './records.ts'
import { ApiError, type Reply } from './replies.ts'
import type { ControlRoute } from './routes.ts'

type ControlCall = {
  route: ControlRoute
  /** Of the sandbox, or of the template. */
  name: string
  body: Record<string, unknown>
  query: URLSearchParams
  /** What a list makes of what is there. */
  shows?: Shows | undefined
  fate?: Fate | undefined
}

const DONE: Reply = { status: 204 }
const REFRESH_S_MIN = 15

/** One call, as the API answers it. */
export async function control(cloud: Cloud, { route, name, body, query, shows, fate }: ControlCall): Promise<Reply> {
  const needsSandbox = !['create', 'list', 'listSnapshots', 'deleteSnapshot'].includes(route)
  if (needsSandbox && !/^i[a-z0-9]{20}$/.test(name)) throw new ApiError(400, 'Invalid sandbox ID')
  const ttlS = body.timeout as number | undefined
  switch (route) {
    case 'create': {
      const { id, settings } = await cloud.create(String(body.templateID), settingsOf(body), ttlS)
      return { status: 201, body: asSandbox(id, settings) }
    }
    case 'connect': {
      const { live, isResumed } = await cloud.connect(name, ttlS, body.memory !== false)
      return { status: isResumed ? 201 : 200, body: asSandbox(name, live.settings) }
    }
    case 'get':
      return { status: 200, body: asDetail(cloud.find(name)) }
    case 'list': {
      const all = shown(listed(cloud), shows)
      return listSandboxes(all, query, (template) => cloud.templates.resolve(template).templateId)
    }
    case 'pause':
      await cloud.pause(name, { memory: body.memory !== false, fate })
      return DONE
    case 'timeout':
      cloud.setTimeout(name, ttlS ?? 0)
      return DONE
    case 'refresh':
      cloud.setTimeout(name, Math.max(REFRESH_S_MIN, Number(body.duration ?? 0)), 'at least to')
      return DONE
    case 'kill':
      await cloud.kill(name)
      return DONE
    case 'snapshot':
      return { status: 201, body: await cloud.snapshot(name, body.name as string | undefined) }
    case 'listSnapshots':
      return listSnapshots(shown([...cloud.templates.snapshots.values()], shows), query)
    case 'deleteSnapshot':
      await cloud.templates.delete(name, (templateId) => whoUses(cloud, templateId))
      return DONE
  }
}

function settingsOf(body: Record<string, unknown>) {
  return {
    metadata: (body.metadata ?? {}) as Record<string, string>,
    envs: (body.envVars ?? {}) as Record<string, string>,
    autoPause: body.autoPause === true,
    autoPauseMemory: body.autoPauseMemory !== false,
    autoResume: (body.autoResume as { enabled?: boolean } | undefined)?.enabled === true,
  }
}

function shown<T extends Listed | Snapshot>(all: T[], shows: Shows = (all) => all): T[] {
  return shows(all) as T[]
}

function listSnapshots(all: Snapshot[], query: URLSearchParams): Reply {
  const of = query.get('sandboxID')
  const name = query.get('name')
  const isMeant = (id: string, names: string[]) =>
    [id, id.replace(/:[^:]*$/, ''), ...names].some((one) => one === name || one === `team/${name}`)
  const found = all.filter((one) => (of === null || one.of === of) && (name === null || isMeant(one.id, one.names)))
  const keyed = found.map(({ id, names, createdAtMs }) => ({
    item: { snapshotID: id, names },
    key: `${new Date(createdAtMs).toISOString()}__${id}`,
  }))
  return page(keyed, query)
}

function whoUses({ live, paused }: Cloud, templateId: string): 'running' | 'paused' | undefined {
  const uses = ({ settings }: { settings: { templateId: string } }) => settings.templateId === templateId
  if ([...live.values()].some(uses)) return 'running'
  return [...paused.values()].some(uses) ? 'paused' : undefined
}
