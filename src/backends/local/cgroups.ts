import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { forEach } from '../../each.ts'
import { BackendError, type Call } from '../backend.ts'
import { PARTS } from '../shell/parts.ts'
import { UNSTOPPABLE, within } from './calls.ts'
import { isMissing } from './files.ts'

/**
 * One of these, or an agent that was started by key, which is called by that. Each has a cgroup of its own, so that the system
 * counts their ends apart.
 */
export type Part = string

/**
 * Where the system lets us: the folder in which it limits memory and counts who was killed for it, and the one in which it
 * freezes. With version 1 they are two, with version 2 one. Both are missing where nobody may make any.
 */
export type Cgroups = { memory?: string; freezer?: string }

const run = promisify(execFile)
const REMOVE_MS_MAX = 5_000
const FREEZE_MS_MAX = 10_000

export async function makeCgroups(name: string, memoryBytesMax: number | undefined): Promise<Cgroups> {
  const made: Cgroups = {}
  for (const { is, folder } of await ownCgroups()) {
    const base = path.join(folder, name)
    if ((made.memory && made.freezer) || !(await makeBase(base, folder, is === 'v2'))) continue
    if (!made.memory && (await has(base, is === 'v2' ? 'agent/memory.events' : 'memory.oom_control')))
      made.memory = base
    if (!made.freezer && (await has(base, is === 'v2' ? 'cgroup.freeze' : 'freezer.state'))) made.freezer = base
    if (made.memory !== base && made.freezer !== base) await removeBase(base)
  }
  if (made.memory && memoryBytesMax !== undefined) await limitMemory(made.memory, memoryBytesMax)
  return made
}

/** Whether this machine lets us. A limit that nobody keeps to is refused. */
export async function canLimitMemory(): Promise<boolean> {
  const made = await makeCgroups(`sandman-probe-${randomUUID()}`, undefined)
  await removeCgroups(made)
  return made.memory !== undefined
}

/** Makes it with its leaves, and sees that a process can be put there: a folder that can be made may still refuse that. */
async function makeBase(base: string, parent: string, isV2: boolean): Promise<boolean> {
  const allow = (folder: string) => writeFile(path.join(folder, 'cgroup.subtree_control'), '+memory').catch(() => {})
  try {
    await mkdir(base, { recursive: true })
    // Refused where processes are beside it; then there is no memory to count, but still something to freeze.
    if (isV2) await allow(parent)
    if (isV2) await allow(base)
    for (const part of PARTS) await mkdir(path.join(base, part), { recursive: true })
    await run('/bin/sh', ['-c', 'echo $$ > "$1"', 'sh', path.join(base, 'agent', 'cgroup.procs')])
    return true
  } catch {
    await removeBase(base).catch(() => {})
    return false
  }
}

async function limitMemory(base: string, bytesMax: number): Promise<void> {
  const isV2 = await has(base, 'memory.max')
  await writeFile(path.join(base, isV2 ? 'memory.max' : 'memory.limit_in_bytes'), String(bytesMax))
  // Without this, what does not fit is swapped. Not every system has swap, or counts it.
  const [swap, swapMax] = isV2 ? ['memory.swap.max', '0'] : ['memory.memsw.limit_in_bytes', String(bytesMax)]
  await writeFile(path.join(base, swap), swapMax).catch(() => {})
}

/** The files into which a process of this part writes its pid, to be where it belongs. */
export function entriesOf(cgroups: Cgroups, part: Part): string[] {
  return basesOf(cgroups).map((base) => path.join(base, part, 'cgroup.procs'))
}

/** Makes one more of them, for an agent that is started by key. False where there is none to be had. */
export async function makeLeaf(cgroups: Cgroups, part: Part): Promise<boolean> {
  const bases = basesOf(cgroups)
  try {
    for (const base of bases) await mkdir(path.join(base, part), { recursive: true })
    return bases.length > 0
  } catch {
    await removeLeaf(cgroups, part)
    return false
  }
}

/** False while there is something in it. */
export async function removeLeaf(cgroups: Cgroups, part: Part): Promise<boolean> {
  const removing = basesOf(cgroups).map((base) => rmdir(path.join(base, part)))
  const results = await Promise.allSettled(removing)
  return results.every((result) => result.status === 'fulfilled' || isMissing(result.reason))
}

export async function membersIn(base: string): Promise<Map<number, Part>> {
  const members = new Map<number, Part>()
  await forEach(await leavesOf(base), async (part) => {
    for (const pid of await pidsIn(base, part)) members.set(pid, part)
  })
  return members
}

/** Of one part, wherever it has a cgroup. */
export async function pidsOf(cgroups: Cgroups, part: Part): Promise<Set<number>> {
  return new Set((await Promise.all(basesOf(cgroups).map((base) => pidsIn(base, part)))).flat())
}

async function pidsIn(base: string, part: Part): Promise<number[]> {
  return (await read(base, `${part}/cgroup.procs`)).split('\n').filter(Boolean).map(Number)
}

async function leavesOf(base: string): Promise<Part[]> {
  const entries = await readdir(base, { withFileTypes: true }).catch((error) => {
    if (isGone(error)) return []
    throw error
  })
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
}

/** How many of a part's processes the system has killed for want of memory; undefined where it does not count them. */
export async function countOomKills({ memory }: Cgroups, part: Part): Promise<number | undefined> {
  if (!memory) return undefined
  const files = [`${part}/memory.events`, `${part}/memory.oom_control`]
  const [counted] = (await Promise.all(files.map((file) => read(memory, file)))).filter((text) => text !== '')
  const count = counted?.match(/^oom_kill (\d+)$/m)?.[1]
  return count === undefined ? undefined : Number(count)
}

/** Returns once every process in it has stopped, or fails. */
export async function freezeCgroup(base: string, call: Call): Promise<void> {
  const isFrozen = await within(FREEZE_MS_MAX, call, () => setFrozen(base, true))
  if (!isFrozen) throw new BackendError('sandbox_unreachable', `The processes in ${base} could not be frozen`)
}

export async function thawCgroup(base: string): Promise<void> {
  const isThawed = await within(FREEZE_MS_MAX, UNSTOPPABLE, async () => !(await setFrozen(base, false)))
  if (!isThawed) throw new BackendError('sandbox_unreachable', `The processes in ${base} could not be thawed`)
}

async function setFrozen(base: string, frozen: boolean): Promise<boolean> {
  const isV2 = await has(base, 'cgroup.freeze')
  const [file, value] = isV2 ? ['cgroup.freeze', frozen ? '1' : '0'] : ['freezer.state', frozen ? 'FROZEN' : 'THAWED']
  await writeFile(path.join(base, file), value).catch((error) => {
    if (!isGone(error)) throw error // after a reboot there is neither a cgroup nor anything in it
  })
  return isV2 ? /^frozen 1$/m.test(await read(base, 'cgroup.events')) : (await read(base, file)) === 'FROZEN\n'
}

export async function removeCgroups(cgroups: Cgroups): Promise<void> {
  for (const base of basesOf(cgroups)) await removeBase(base)
}

async function removeBase(base: string): Promise<void> {
  for (const folder of [...(await leavesOf(base)).map((part) => path.join(base, part)), base]) {
    let refusal: unknown
    // A process that has been killed is in its cgroup for a moment longer.
    const isDone = await within(REMOVE_MS_MAX, UNSTOPPABLE, async () => {
      refusal = await rmdir(folder).then(
        () => undefined,
        (error) => (isMissing(error) ? undefined : error),
      )
      return refusal === undefined || (refusal as NodeJS.ErrnoException).code !== 'EBUSY'
    })
    if (!isDone || refusal !== undefined) throw refusal
  }
}

function basesOf({ memory, freezer }: Cgroups): string[] {
  return [...new Set([memory, freezer].filter((base) => base !== undefined))]
}

/** Where this process is, in each hierarchy that could be of use; those of version 1 first, which own their controllers. */
async function ownCgroups(): Promise<{ is: 'v1' | 'v2'; folder: string }[]> {
  const [mounts, own] = await Promise.all([read('/proc/self', 'mountinfo'), read('/proc/self', 'cgroup')])
  const found = mounts.split('\n').flatMap((line) => {
    const [, , , root, mount, ...rest] = line.split(' ')
    const [type, , options] = rest.slice(rest.indexOf('-') + 1)
    const is = type === 'cgroup2' ? ('v2' as const) : ('v1' as const)
    const controller = options?.split(',').find((option) => option === 'memory' || option === 'freezer')
    if (!root || !mount || !(is === 'v2' || (type === 'cgroup' && controller))) return []
    const mine = own.split('\n').map((entry) => entry.match(/^\d+:([^:]*):(.*)$/))
    const at = mine.find((entry) => entry?.[1]?.split(',').includes(is === 'v2' ? '' : (controller as string)))?.[2]
    if (at === undefined) return []
    return [{ is, folder: path.join(mount, at.startsWith(root) ? at.slice(root.length) : at) }]
  })
  return found.sort((a, b) => a.is.localeCompare(b.is))
}

/** Empty when there is no such file: cgroups come and go, and are not there at all on other systems. */
async function read(folder: string, file: string): Promise<string> {
  return (await readIfThere(folder, file)) ?? ''
}

async function has(folder: string, file: string): Promise<boolean> {
  return (await readIfThere(folder, file)) !== undefined
}

/** Any other failure says nothing about what is there: who takes it for nothing leaves processes behind, or frozen. */
async function readIfThere(folder: string, file: string): Promise<string | undefined> {
  return readFile(path.join(folder, file), 'utf8').catch((error) => {
    if (isGone(error)) return undefined
    throw error
  })
}

/** Also while it is being removed. */
function isGone(error: unknown): boolean {
  return isMissing(error) || (error as NodeJS.ErrnoException).code === 'ENODEV'
}
