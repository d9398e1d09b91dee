import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { open, readdir, readFile } from 'node:fs/promises'
import { setImmediate as breathe } from 'node:timers/promises'
import { promisify } from 'node:util'
import { forEach } from '../../each.ts'
import { emptyIfGone, identityOf, isStillThere, type ProcessIdentity } from '../../process-identity.ts'
import { BackendError } from '../backend.ts'
import { partOf } from '../shell/parts.ts'
import { INSTANCE_VARIABLE, PART_VARIABLE } from '../shell/prelude.ts'
import { type AgentKey, listKeys, readAgentStarted } from './agent-files.ts'
import { UNSTOPPABLE, within } from './calls.ts'
import { membersIn, type Part, pidsOf, thawCgroup } from './cgroups.ts'
import { bootId, findSupervisor, type Instance, readStarted } from './instance.ts'

/** A process of a sandbox. Its supervisor is none: that is never frozen, and ended by itself. */
export type Member = ProcessIdentity & {
  part: Part
  isInFreezer: boolean
  isStopped: boolean
  /** In the middle of a vfork, whose child was stopped first: it cannot stop by itself, nor do anything else. */
  isWaitingForStopped: boolean
}

type Seen = ProcessIdentity & { parent: number; group: number; state: string }

const END_MS_MAX = 10_000
/** Of the kernel's own threads, none of which is anybody's. */
const KERNEL_FLAG = 0x200000
/** How many are read before others get their turn: about a millisecond. */
const READ_AT_ONCE = 50
/** Of most environments; of a larger one more is read. */
const ENVIRONMENT_BYTES = 4_096
const KILL_BIT = 1n << 8n
const run = promisify(execFile)

/** By cgroup, by the mark in their environment, by what the supervisor has started, and by descent. */
export async function findMembers(instance: Instance): Promise<Member[]> {
  const { mark, cgroups } = instance.labels
  const supervisor = await findSupervisor(instance)
  const [inFreezer, inMemory] = await Promise.all(
    [cgroups.freezer, cgroups.memory].map(async (base) => (base ? membersIn(base) : new Map<number, Part>())),
  )
  const seen = (await listProcesses()).filter(({ state }) => !'ZX'.includes(state))
  const parts = new Map<number, Part>()
  const cgroupOf = (pid: number) => inFreezer?.get(pid) ?? inMemory?.get(pid)
  await forEach(seen, async ({ pid }) => {
    // What is there may also be an agent for which no cgroup could be made.
    const isCertain = cgroupOf(pid) !== undefined && cgroupOf(pid) !== 'command'
    const part = isCertain ? cgroupOf(pid) : await markedPart(pid, mark)
    if (part) parts.set(pid, part)
  })
  const unmarked = seen.filter(({ pid }) => !parts.has(pid))
  const startedAs = await findStarted(instance, unmarked, supervisor)
  for (const { pid } of unmarked) {
    const part = startedAs.get(pid) ?? cgroupOf(pid)
    if (part) parts.set(pid, part)
  }
  addDescendants(seen, parts, supervisor)
  const members = seen.filter(({ pid }) => parts.has(pid) && pid !== supervisor?.pid && pid !== process.pid)
  const isStopped = ({ state }: Seen) => 'Tt'.includes(state)
  const parentsOfStopped = new Set(members.filter(isStopped).map(({ parent }) => parent))
  return members.map((member) => ({
    pid: member.pid,
    born: member.born,
    part: parts.get(member.pid) as Part,
    isInFreezer: inFreezer?.has(member.pid) ?? false,
    isStopped: isStopped(member),
    isWaitingForStopped: member.state === 'D' && parentsOfStopped.has(member.pid),
  }))
}

/**
 * Those of one agent. Where that has a cgroup of its own, nothing else is looked at: hundreds of them may be stopped at once,
 * each with the lock of their sandbox.
 */
export async function findAgent(instance: Instance, key: AgentKey): Promise<ProcessIdentity[]> {
  const { folder, labels } = instance
  const started = key === undefined ? undefined : await readAgentStarted(folder, key).catch(noneIfDamaged)
  if (!started?.hasCgroup || labels.boot !== (await bootId()))
    return (await findMembers(instance)).filter(({ part }) => part === partOf(key))
  const pids = await pidsOf(labels.cgroups, partOf(key))
  // One that has just been started is on its way there.
  if (started.process && (await isStillThere(started.process))) pids.add(started.process.pid)
  return (await Promise.all([...pids].map(identityOf))).filter(({ born }) => born !== '')
}

function addDescendants(seen: Seen[], parts: Map<number, Part>, supervisor: ProcessIdentity | undefined): void {
  for (let found = true; found; ) {
    found = false
    for (const { pid, parent } of seen) {
      // What the supervisor is just starting has nothing yet by which it could be told whose part it is.
      const part = parts.get(parent) ?? (parent === supervisor?.pid ? 'command' : undefined)
      if (!part || parts.has(pid)) continue
      parts.set(pid, part)
      found = true
    }
  }
}

/**
 * The environment that a process was started with. One that we may not read belongs to another user, or is of the system.
 */
async function markedPart(pid: number, mark: string): Promise<Part | undefined> {
  if (process.platform !== 'linux') return undefined
  const environment = (await readEnvironment(pid).catch(emptyIfNotOurs)).split('\0')
  if (!environment.includes(`${INSTANCE_VARIABLE}=${mark}`)) return undefined
  return environment.find((entry) => entry.startsWith(`${PART_VARIABLE}=`))?.slice(PART_VARIABLE.length + 1) as Part
}

/**
 * There are hundreds of them, and the kernel says of none how long it is: not knowing that, `readFile` takes 64 KB for each and asks
 * three times. What comes back short is all there is.
 */
async function readEnvironment(pid: number): Promise<string> {
  const file = await open(`/proc/${pid}/environ`)
  try {
    for (let size = ENVIRONMENT_BYTES; ; size *= 4) {
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(size), 0, size, 0)
      if (bytesRead < size) return buffer.toString('latin1', 0, bytesRead)
    }
  } finally {
    await file.close()
  }
}

function emptyIfNotOurs(error: NodeJS.ErrnoException): string {
  return error.code === 'EACCES' || error.code === 'EPERM' ? '' : emptyIfGone(error)
}

/**
 * The agents and the sidecar themselves, whatever they have done to their environment. Where births and environments are not
 * told, their groups, as long as a supervisor vouches for them.
 */
async function findStarted(instance: Instance, among: Seen[], supervisor: ProcessIdentity | undefined) {
  const isLinux = process.platform === 'linux'
  const found = new Map<number, Part>()
  // As long as it lives, they are its children: mostly there is none to ask for, and hundreds of files are not read.
  const asked = isLinux && supervisor ? among.filter(({ parent }) => parent === supervisor.pid) : among
  const canKnow = isLinux ? instance.labels.boot === (await bootId()) : supervisor !== undefined
  if (asked.length === 0 || !canKnow) return found
  const add = (part: Part, started: ProcessIdentity | undefined) => {
    const isIt = ({ pid, born, group }: Seen) =>
      isLinux ? pid === started?.pid && born === started.born : group === started?.pid
    for (const one of asked) if (isIt(one)) found.set(one.pid, part)
  }
  const { agent, sidecar } = (await readStarted(instance).catch(noneIfDamaged)) ?? {}
  add('sidecar', sidecar)
  add('agent', agent)
  await forEach(await listKeys(instance.folder), async (key) => {
    add(key, (await readAgentStarted(instance.folder, key).catch(noneIfDamaged))?.process)
  })
  return found
}

/** What is found without it can still be ended. */
function noneIfDamaged(error: NodeJS.ErrnoException): undefined {
  if (!(error instanceof BackendError || error.code === 'EISDIR')) throw error
}

async function listProcesses(): Promise<Seen[]> {
  if (process.platform !== 'linux') {
    const { stdout } = await run('ps', ['-A', '-o', 'pid=,ppid=,pgid=,stat='])
    return stdout.split('\n').flatMap((line) => {
      const [pid, parent, group, state] = line.trim().split(/\s+/)
      return state
        ? [{ pid: Number(pid), born: '', parent: Number(parent), group: Number(group), state: state.slice(0, 1) }]
        : []
    })
  }
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const seen: Seen[] = []
  for (const [nth, pid] of pids.entries()) {
    if (nth % READ_AT_ONCE === READ_AT_ONCE - 1) await breathe()
    const line = readStat(pid)
    // After the program's name, which may contain anything: state, parent, group, …, and eighteen further on the birth.
    const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
    const [state, parent, group, , , , flags] = fields
    if (!state || fields[19] === undefined || Number(flags) & KERNEL_FLAG) continue
    seen.push({ pid: Number(pid), born: fields[19], parent: Number(parent), group: Number(group), state })
  }
  return seen
}

/** At once, and not by way of another thread, which costs many times as much: the kernel has it ready, and waits for nobody. */
function readStat(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1')
  } catch (error) {
    return emptyIfNotOurs(error as NodeJS.ErrnoException)
  }
}

export async function endMembers(instance: Instance, isMeant: (member: Member) => boolean): Promise<void> {
  await killAll(instance, async () => (await findMembers(instance)).filter(isMeant))
}

export async function endAgent(instance: Instance, key: AgentKey): Promise<void> {
  await killAll(instance, () => findAgent(instance, key))
}

/**
 * Kills until none is left. What starts others faster than it is found is found again. All are stopped before the first one
 * dies: whoever sees its child die would otherwise go on, and may even end as if its work were done.
 */
async function killAll(instance: Instance, find: () => Promise<ProcessIdentity[]>): Promise<void> {
  let left: ProcessIdentity[] = []
  const areGone = await within(END_MS_MAX, UNSTOPPABLE, async () => {
    left = await find()
    for (const signal of ['SIGSTOP', 'SIGKILL'] as const) for (const { pid } of left) kill(pid, signal)
    return left.length === 0
  })
  if (areGone) return
  const pids = left.map(({ pid }) => pid).join(', ')
  throw new BackendError('sandbox_unreachable', `Processes of ${instance.ref} do not end: ${pids}`)
}

/** Everything of it, and its supervisor first, which would otherwise record an end that nobody asked about. */
export async function endEverything(instance: Instance): Promise<void> {
  const supervisor = await findSupervisor(instance)
  if (supervisor) kill(supervisor.pid, 'SIGKILL')
  const { freezer } = instance.labels.cgroups
  if (freezer) await thawCgroup(freezer) // what is frozen there does not even die
  await endMembers(instance, () => true)
  const isGone = await within(END_MS_MAX, UNSTOPPABLE, async () => !(supervisor && (await isStillThere(supervisor))))
  if (!isGone) throw new BackendError('sandbox_unreachable', `The supervisor of ${instance.ref} does not end`)
}

/** There, and not only until it is thawed: a kill waits for a process that is frozen by a cgroup of version 1. */
export async function canLiveOn(identity: ProcessIdentity): Promise<boolean> {
  if (!(await isStillThere(identity))) return false
  if (process.platform !== 'linux') return true
  const status = await readFile(`/proc/${identity.pid}/status`, 'latin1').catch(emptyIfGone)
  if (status === '') return false
  const pending = [...status.matchAll(/^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)$/gm)]
  return pending.every(([, signals]) => (BigInt(`0x${signals}`) & KILL_BIT) === 0n)
}

/** One that has ended meanwhile needs no signal. */
export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
