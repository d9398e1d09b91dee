import { BackendError, type Call } from '../backend.ts'
import type { Asked } from './engine.ts'
import { isAbsent, Refusal, says, Unreadable } from './errors.ts'
import { LABEL, type Labels } from './labels.ts'
import { type ContainerName, containerName, inLetters, parseContainerName } from './names.ts'
import type { Site } from './site.ts'

type ContainerState = 'created' | 'running' | 'paused' | 'restarting' | 'removing' | 'exited' | 'dead'

/** As a list shows it. */
export type Summary = { Id: string; Names: string[]; State: ContainerState; Labels: Labels; Created: number }

/** What is read of the engine's own account of a container. */
type Inspected = {
  Id: string
  Name: string
  Created: string
  Image: string
  RestartCount?: number
  State: {
    Status: ContainerState
    StartedAt: string
    FinishedAt: string
    ExitCode: number
    OOMKilled: boolean
    Error?: string
  }
  Config: { Labels: Labels | null; Tty?: boolean; Env: string[] | null; Entrypoint: string[] | null; Image: string }
  HostConfig: HostConfig
  Mounts?: { Type: string; Destination: string }[]
  NetworkSettings?: {
    IPAddress?: string
    Ports?: Record<string, { HostIp: string; HostPort: string }[] | null> | null
    Networks?: Record<string, { IPAddress?: string }> | null
  }
}
export type HostConfig = { NetworkMode?: string; LogConfig?: { Type: string } } & Record<string, unknown>

export type Container = {
  id: string
  /** As it is called now: a call by this name does nothing once it is called otherwise. */
  fullName: string
  name: ContainerName
  state: ContainerState
  /** The same for as long as it has neither been started nor woken anew, and no other container's. */
  incarnation: string
  labels: Labels
  inspected: Inspected
}

/** Undefined when the engine says that there is no such container. */
export async function inspectContainer({ engine }: Site, id: string, call: Call): Promise<Container | undefined> {
  const path = `/containers/${id}/json`
  try {
    const inspected = await engine.json<Inspected>({ method: 'GET', path }, call)
    if (!inspected.State?.Status || !inspected.Config || !inspected.Name)
      throw new Unreadable(path, JSON.stringify(inspected))
    return containerOf(inspected)
  } catch (error) {
    if (isAbsent(error, 'container', id)) return undefined
    throw error
  }
}

function containerOf(inspected: Inspected): Container {
  const { Id: id, State, Config } = inspected
  const fullName = inspected.Name.replace(/^\//, '')
  const name = parseContainerName(fullName)
  const woken = name.wokenBy === undefined ? '' : `.${name.wokenBy}`
  return {
    id,
    fullName,
    name,
    state: State.Status,
    incarnation: `${shortId(id)}.${inLetters(State.StartedAt)}${woken}`,
    labels: Config.Labels ?? {},
    inspected,
  }
}

export const shortId = (id: string) => id.slice(0, 12)

/** When it was started last, as a name may say it. */
export const startLetters = ({ inspected }: Container) => inLetters(inspected.State.StartedAt)

/** The pause by which it was put to sleep, if it has not been started since then. */
export function sleepOf(container: Container): ContainerName['sleep'] {
  const { name } = container
  return name.sleep?.startedAt === startLetters(container) ? name.sleep : undefined
}

/** Of this fleet, and with these labels; running or not. */
export async function listContainers({ engine, home }: Site, labels: Labels, call: Call): Promise<Summary[]> {
  const label = Object.entries({ [LABEL.fleet]: home.fleet, ...labels }).map(([name, value]) => `${name}=${value}`)
  const path = '/containers/json'
  const listed = await engine.json<Summary[]>({ method: 'GET', path, query: { all: true, filters: { label } } }, call)
  if (!Array.isArray(listed) || listed.some((one) => !one?.Id || !Array.isArray(one.Names)))
    throw new Unreadable(path, JSON.stringify(listed))
  // Also when somebody on the way has not kept to the filter: what is another's is nobody's business here.
  return listed.filter((one) => one.Labels?.[LABEL.fleet] === home.fleet)
}

export function summaryName({ Names }: Summary): string {
  return Names[0]?.replace(/^\//, '') ?? ''
}

/** Whoever was named is called otherwise by now, or is gone: somebody was faster. */
export class Moved extends BackendError {
  constructor(name: string, cause: unknown) {
    super('overtaken', `There is no container of the name ${name} any more: somebody else has changed it meanwhile`, {
      cause,
    })
  }
}

/** Does something to a container, by a name that says in which state it has to be. */
async function change(
  { engine }: Site,
  name: string,
  asked: Omit<Asked, 'path'> & { what?: string; isDone?: (error: Refusal) => boolean },
  call: Call,
): Promise<void> {
  const { what, isDone = () => false, ...request } = asked
  try {
    await engine.done({ ...request, path: `/containers/${name}${what ? `/${what}` : ''}` }, call)
  } catch (error) {
    if (isAbsent(error, 'container', name)) throw new Moved(name, error)
    if (!(error instanceof Refusal) || !isDone(error)) throw error
  }
}

/** Returns its new name. Somebody else may be about to give it the same one. */
export async function rename(site: Site, { fullName }: Pick<Container, 'fullName'>, to: ContainerName, call: Call) {
  const name = containerName(to)
  const isDone = (error: Refusal) => {
    if (error.says([409, 500], /already in use/i)) throw new Moved(fullName, error)
    return error.says(400, /same name/i)
  }
  if (name !== fullName) await change(site, fullName, { method: 'POST', what: 'rename', query: { name }, isDone }, call)
  return name
}

/** Says in its name that it is not about to sleep any more. As well as it goes: whoever asks next does it again. */
export async function takeBack(site: Site, agent: Container, call: Call): Promise<void> {
  await rename(site, agent, { ...agent.name, sleep: undefined }, call).catch(() => {})
}

export function pause(site: Site, name: string, call: Call): Promise<void> {
  const isDone = (error: Refusal) => error.says([409, 500], /already paused/i)
  return change(site, name, { method: 'POST', what: 'pause', isDone }, call)
}

export function unpause(site: Site, name: string, call: Call): Promise<void> {
  const isDone = (error: Refusal) => error.says([409, 500], /is not paused|not running/i)
  return change(site, name, { method: 'POST', what: 'unpause', isDone }, call)
}

export function start(site: Site, name: string, call: Call, query?: { checkpoint: string }): Promise<void> {
  const isDone = ({ status }: Refusal) => status === 304
  return change(site, name, { method: 'POST', what: 'start', isDone, ...(query && { query }) }, call)
}

/** Asked to end at first, and killed if it does not within this time. */
export function stop(site: Site, name: string, graceSeconds: number, call: Call): Promise<void> {
  const isDone = ({ status }: Refusal) => status === 304
  return change(site, name, { method: 'POST', what: 'stop', query: { t: graceSeconds }, isDone }, call)
}

/** Whatever it is doing; one that is frozen is killed before it is thawed. */
export function remove(site: Site, name: string, call: Call): Promise<void> {
  const isDone = (error: Refusal) => error.says(409, /removal of container .* is already in progress/i)
  return change(site, name, { method: 'DELETE', query: { force: true, v: true }, isDone }, call)
}

/** Undefined where the name is taken: by one that was made before, or just now by somebody else. */
export async function makeContainer({ engine }: Site, name: string, config: object, call: Call) {
  try {
    const query = { name }
    return await engine.json<{ Id: string }>({ method: 'POST', path: '/containers/create', query, body: config }, call)
  } catch (error) {
    if (says(error, [409, 500], /already in use/i)) return undefined
    throw error
  }
}
