import type { Cloud } from './cloud.ts'
import type { Fault } from './faults.ts'
import { asExecution, asInfo, asJob, asListed, asSnapshot, newId, type Settings } from './records.ts'
import { ApiError, conflict, done, type Reply } from './replies.ts'
import type { Match } from './routes.ts'

type Asking = Match & {
  body: Record<string, unknown>
  query: URLSearchParams
  /** Where whoever asks has found this server. */
  url: string
  fault: Fault | undefined
}

const LIMIT_DEFAULT = 50
const LIMIT_MAX = 100

/** One call, as the API answers it. */
export async function perform(cloud: Cloud, { route, name, part, body, query, url, fault }: Asking): Promise<Reply> {
  switch (route) {
    case 'create': {
      const { id, status } = await cloud.create(body as Settings)
      return done({ sandboxId: id, status }, 201)
    }
    case 'list': {
      const wanted = query.get('name')
      const all = [...cloud.boxes.values()].filter(
        (box) => box.isListed && (wanted === null || box.settings.name === wanted),
      )
      const { items, total } = page(all, query)
      return done({ sandboxes: items.map((box) => asListed(box, url)), total })
    }
    case 'get':
      return done(asInfo(cloud.find(name), url))
    case 'status': {
      const { status, exitCode } = cloud.find(name)
      return done({ sandboxId: name, status, ...(exitCode !== undefined && { exitCode }) })
    }
    case 'pause': {
      const checkpointId = await cloud.pause(cloud.find(name), fault?.kind === 'pause' ? fault.fate : undefined)
      const told = checkpointId === undefined ? {} : { checkpointId }
      return { status: 200, body: { success: true, sandboxId: name, status: 'suspended', ...told } }
    }
    case 'resume':
      await cloud.resume(cloud.find(name), fault?.kind === 'resume' ? fault.fate : undefined)
      return done()
    case 'destroy':
      await cloud.destroy(cloud.find(name))
      return done()
    case 'execute': {
      const { started, autoResumed } = await cloud.execute(cloud.find(name), body.command as string[])
      const data = asExecution(started, name, url)
      return { status: 200, body: { success: true, data, ...(autoResumed && { autoResumed }) } }
    }
    case 'getExecution': {
      const { box, started } = cloud.findStarted(name)
      if (query.has('wait')) await started.ended
      return done(asExecution(started, box.id, url))
    }
    case 'listExecutions':
      return done({ executions: cloud.find(name).executions.map((one) => asExecution(one, name, url)) })
    case 'createJob': {
      const job = asJob(await cloud.startJob(cloud.find(name), body.command as string[]), name, url)
      const late = { status: 'pending', stdoutStreamUrl: null, stderrStreamUrl: null }
      return done({ ...job, ...(cloud.jobsBeginLate && late) }, 201)
    }
    case 'listJobs':
      return done({ jobs: [...cloud.find(name).machine.started.values()].map((one) => asJob(one, name, url)) })
    case 'getJob':
    case 'stopJob': {
      const started = cloud.find(name).machine.started.get(part)
      if (!started) throw new ApiError(404, 'Job not found')
      if (route === 'stopJob') started.kill()
      return done(asJob(started, name, url))
    }
    case 'events': {
      const { events } = cloud.find(name)
      const sorted = query.get('direction') === 'desc' ? events.toReversed() : events
      return done({ events: sorted.slice(0, Number(query.get('limit') ?? LIMIT_DEFAULT)) })
    }
    case 'listCheckpoints':
    case 'createCheckpoint':
    case 'restoreCheckpoint':
    case 'deleteCheckpoint':
      return checkpoint(cloud, { route, name, part, body })
    case 'snapshot':
      return done(asSnapshot(await cloud.takeSnapshot(cloud.find(name), String(body.name ?? newId('snapshot')))), 201)
    case 'getSnapshot':
      return done(asSnapshot(cloud.findSnapshot(name)))
    case 'listSnapshots': {
      const of = query.get('sandboxId')
      const { items, total } = page(
        [...cloud.snapshots.values()].filter((one) => of === null || one.of === of),
        query,
      )
      return done({ snapshots: items.map(asSnapshot), total })
    }
    case 'deleteSnapshot':
      await cloud.deleteSnapshot(name)
      return done()
    case 'stream': {
      const { box, started } = cloud.findStarted(name)
      const goesOn = box.status !== 'suspended' && box.status !== 'terminated'
      const breaks = fault?.kind === 'stream' ? fault : undefined
      return { stream: (response) => started.output.follow(response, goesOn, breaks) }
    }
  }
}

/** Of the file system alone, with names that are given by who asks; none of a sandbox that sleeps. */
function checkpoint(
  cloud: Cloud,
  { route, name, part, body }: Pick<Asking, 'route' | 'name' | 'part' | 'body'>,
): Reply {
  const box = cloud.find(name)
  if (box.status === 'suspended') throw conflict('Sandbox is suspended')
  if (route === 'listCheckpoints') return done({ checkpoints: box.checkpoints })
  if (route === 'createCheckpoint') {
    if (box.checkpoints.some((one) => one.name === body.name)) throw conflict('Checkpoint name already exists')
    const made = { id: newId('ckpt'), name: String(body.name), createdAt: cloud.now(), parent: '' }
    box.checkpoints.push(made)
    return done(made, 201)
  }
  if (!box.checkpoints.some(({ id }) => id === part)) throw new ApiError(404, 'Checkpoint not found')
  if (route === 'deleteCheckpoint') box.checkpoints = box.checkpoints.filter(({ id }) => id !== part)
  return done()
}

/** Newest first, unless it is asked for otherwise. */
function page<T extends { createdAt: string; id: string }>(all: T[], query: URLSearchParams) {
  const limit = Number(query.get('limit') ?? LIMIT_DEFAULT)
  if (limit > LIMIT_MAX) throw new ApiError(400, `Invalid limit: at most ${LIMIT_MAX}`)
  const offset = Number(query.get('offset') ?? 0)
  const isRising = query.get('direction') === 'asc'
  const sorted = all.toSorted((a, b) => (a.createdAt < b.createdAt === isRising ? -1 : 1))
  return { items: sorted.slice(offset, offset + limit), total: all.length }
}
