import { signal } from '../../machine.ts'
import { listProcesses, readIfThere } from '../../process-table.ts'
import { membersAmong } from './processes.ts'

const LOOK_EVERY_MS = 20

/** Who looks so late has not seen what happened in between. */
const LATE_MS = 5 * LOOK_EVERY_MS

/** What becomes of programs that do not expect to be refused memory: SIGTRAP, SIGABRT, SIGBUS, SIGSEGV. */
const BROKEN: number[] = [133, 134, 135, 139]

export type Watched = { mark: string; memoryBytesMax: number; onKill(): void }

/** One that is watched, and what was last seen of it. */
export class Diet {
  readonly watched: Watched
  victim: number | undefined
  seenBytes = 0
  seenAt = performance.now()

  constructor(watched: Watched) {
    this.watched = watched
  }

  /** The system has refused it memory before anybody came to look. */
  hasBroken(exitCode: number): boolean {
    if (!BROKEN.includes(exitCode)) return false
    return performance.now() - this.seenAt > LATE_MS || this.seenBytes > this.watched.memoryBytesMax / 2
  }
}

/**
 * What the kernel does for a container that has a limit: when its processes have more than that together, the biggest one is killed.
 * The next one is killed only when that has died and it still is too much.
 */
export class MemoryWatch {
  readonly #diets = new Set<Diet>()
  #timer: NodeJS.Timeout | undefined

  begin(watched: Watched): Diet {
    const diet = new Diet(watched)
    this.#diets.add(diet)
    this.#timer ??= setInterval(() => this.#look(), LOOK_EVERY_MS)
    return diet
  }

  end(diet: Diet): void {
    this.#diets.delete(diet)
    if (this.#diets.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #look(): void {
    const all = listProcesses()
    for (const diet of this.#diets) {
      const { mark, memoryBytesMax, onKill } = diet.watched
      const members = membersAmong(all, [mark]).map(({ pid }) => ({ pid, bytes: memoryOf(pid) }))
      diet.seenBytes = members.reduce((sum, { bytes }) => sum + bytes, 0)
      diet.seenAt = performance.now()
      if (diet.seenBytes <= memoryBytesMax || members.some(({ pid }) => pid === diet.victim)) continue
      const [biggest] = members.toSorted((a, b) => b.bytes - a.bytes)
      if (!biggest) continue
      diet.victim = biggest.pid
      onKill()
      signal(biggest.pid, 'SIGKILL')
    }
  }
}

/** What is resident and its own: a program that ten of them run is in memory once. */
function memoryOf(pid: number): number {
  const status = readIfThere(`/proc/${pid}/status`)
  const kibibytes = [...status.matchAll(/^Rss(?:Anon|Shmem):\s+(\d+) kB/gm)].map(([, number]) => Number(number))
  return kibibytes.reduce((sum, each) => sum + each, 0) * 1024
}
