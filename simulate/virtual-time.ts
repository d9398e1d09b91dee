import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import timersPromises from 'node:timers/promises'
import { types } from 'node:util'
import type { Engine } from './engine.ts'
import { currentLife } from './life.ts'
import { VirtualTimer } from './virtual-timer.ts'

let engine: Engine | undefined
let fetchInside: typeof fetch | undefined

/** From now on, simulated processes live in this engine's time. */
export function liveIn(own: Engine, inside: typeof fetch): void {
  engine = own
  fetchInside = inside
}

/** The engine, if a simulated process asks; undefined when the simulation itself, or a driver, wants real time. */
function inside(): Engine | undefined {
  return currentLife() && engine
}

/**
 * Replaces, in this process, all that tells the time, waits for it, or draws lots. A simulated process gets virtual time and chance
 * from its seed; everybody else, such as the database's driver, gets what there was before.
 */
export function replaceTime(): void {
  const real = {
    setTimeout: globalThis.setTimeout,
    clearTimeout: globalThis.clearTimeout,
    setInterval: globalThis.setInterval,
    clearInterval: globalThis.clearInterval,
    setImmediate: globalThis.setImmediate,
    now: performance.now.bind(performance),
    random: Math.random,
    timeout: AbortSignal.timeout.bind(AbortSignal),
    fetch: globalThis.fetch,
    sleep: timersPromises.setTimeout,
    randomUUID: crypto.randomUUID.bind(crypto),
    Date: globalThis.Date,
  }
  type Work = (...args: unknown[]) => void

  const start = (work: Work, ms: number, args: unknown[], isRepeated: boolean): VirtualTimer =>
    new VirtualTimer(engine as Engine, () => work(...args), ms, isRepeated)
  const clear = (timer: unknown, clearReal: (timer: never) => void) =>
    timer instanceof VirtualTimer ? timer.stop() : clearReal(timer as never)

  Object.assign(globalThis, {
    setTimeout: (work: Work, ms = 0, ...args: unknown[]) =>
      inside() ? start(work, ms, args, false) : real.setTimeout(work, ms, ...args),
    setInterval: (work: Work, ms = 0, ...args: unknown[]) =>
      inside() ? start(work, ms, args, true) : real.setInterval(work, ms, ...args),
    setImmediate: (work: Work, ...args: unknown[]) =>
      inside() ? start(work, 0, args, false) : real.setImmediate(work, ...args),
    clearTimeout: (timer: unknown) => clear(timer, real.clearTimeout),
    clearInterval: (timer: unknown) => clear(timer, real.clearInterval),
    fetch: ((input, init) => (inside() ? fetchInside : real.fetch)?.(input, init)) as typeof fetch,
    Date: virtualDate(real.Date),
  })
  performance.now = () => inside()?.elapsedMs ?? real.now()
  Math.random = () => inside()?.random.next() ?? real.random()
  AbortSignal.timeout = (ms) => {
    if (!inside()) return real.timeout(ms)
    const controller = new AbortController()
    setTimeout(() => controller.abort(new DOMException('The operation timed out.', 'TimeoutError')), ms)
    return controller.signal
  }
  crypto.randomUUID = (options) => {
    const random = inside()?.random
    if (!random) return real.randomUUID(options)
    return `${random.letters(8)}-${random.letters(4)}-4${random.letters(3)}-8${random.letters(3)}-${random.letters(12)}`
  }
  timersPromises.setTimeout = ((ms, value, options) =>
    inside()
      ? sleep(ms ?? 0, value, options?.signal)
      : real.sleep(ms, value, options)) as typeof timersPromises.setTimeout
  syncBuiltinESMExports()
}

function sleep<T>(ms: number, value: T, signal: AbortSignal | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    const give = () => {
      timer.stop()
      reject(new DOMException('The operation was aborted', { name: 'AbortError', cause: signal?.reason }))
    }
    const timer = new VirtualTimer(
      engine as Engine,
      () => {
        signal?.removeEventListener('abort', give)
        resolve(value)
      },
      ms,
      false,
    )
    if (signal?.aborted) give()
    else signal?.addEventListener('abort', give, { once: true })
  })
}

function virtualDate(RealDate: DateConstructor): DateConstructor {
  return class VirtualDate extends RealDate {
    constructor(...given: unknown[]) {
      if (given.length === 0) super(VirtualDate.now())
      else super(...(given as [number]))
    }
    static override now(): number {
      return inside()?.nowMs ?? RealDate.now()
    }
    /** Those that were made before this was put in its place are dates as well. */
    static override [Symbol.hasInstance](value: unknown): boolean {
      return types.isDate(value)
    }
  } as unknown as DateConstructor
}
