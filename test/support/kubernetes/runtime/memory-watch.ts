import { signal } from '../../machine.ts'
import { listProcesses, readIfThere } from '../../process-table.ts'
import { membersAmong } from './processes.ts'

const LOOK_EVERY_MS = 20

/**
 * In this time, not looked at, one may have come from little to so much that it was refused. On a busy machine one looks late, but
 * not so late.
 */
const LATE_MS = 500

/** What becomes of programs that do not expect to be refused memory: SIGTRAP, SIGABRT, SIGBUS, SIGSEGV. */
const BROKEN: number[] = [133, 134, 135, 139]

type Watched = { mark: string; memoryBytesMax: number; onKill(): void }

type Look = { bytes: number; atMs: number }

/** One that is watched, and what was lately seen of it. */
export class Diet {
  readonly watched: Watched
  victim: number | undefined
  #last: Look = { bytes: 0, atMs: performance.now() }
  #before = this.#last

  constructor(watched: Watched) {
    this.watched = watched
  }

  note(bytes: number): void {
    this.#before = this.#last
    this.#last = { bytes, atMs: performance.now() }
  }

  /**
   * The system has refused it memory before anybody came to see that it had too much. The last look may have been one at its remains,
   * so that the one before counts as well.
   */
  hasBroken(exitCode: number): boolean {
    if (!BROKEN.includes(exitCode)) return false
    const { bytes, atMs } = this.#before
    return performance.now() - atMs > LATE_MS || Math.max(bytes, this.#last.bytes) > this.watched.memoryBytesMax / 2
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
      const bytes = members.reduce((sum, { bytes }) => sum + bytes, 0)
      diet.note(bytes)
      if (bytes <= memoryBytesMax || members.some(({ pid }) => pid === diet.victim)) continue
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
