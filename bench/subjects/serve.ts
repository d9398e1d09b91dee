import { mkdir, writeFile } from 'node:fs/promises'
import { Session } from 'node:inspector/promises'
import os from 'node:os'
import path from 'node:path'
import type { Measured, Order } from './order.ts'

/** What a subject can be asked by whoever has started its process. */
type Calls = Record<string, (argument: never) => Promise<unknown>>

export type Question = { id: number; call: string; argument: unknown }
export type Reply = { id: number; answer?: unknown; error?: string }

/** Answers one question after the other, until whoever asks is gone. */
export async function serve(start: (order: Order) => Promise<Calls>): Promise<void> {
  process.on('disconnect', () => process.exit())
  const calls = await start(JSON.parse(process.argv[2] as string) as Order)
  process.on('message', async ({ id, call, argument }: Question) => {
    try {
      reply({ id, answer: await calls[call]?.(argument as never) })
    } catch (error) {
      reply({ id, error: (error as Error).stack ?? String(error) })
    }
  })
  process.send?.('ready')
}

function reply(said: Reply): void {
  process.send?.(said)
}

/** A stretch of work: its time, and what became of the processors meanwhile. */
export function stopwatch(): (count: number) => Measured {
  const cpu = process.cpuUsage()
  const idle = idleMs()
  const beganAt = performance.now()
  return (count) => {
    const { user, system } = process.cpuUsage(cpu)
    return { count, ms: performance.now() - beganAt, cpuMs: (user + system) / 1_000, idleMs: idleMs() - idle }
  }
}

function idleMs(): number {
  return os.cpus().reduce((sum, { times }) => sum + times.idle, 0)
}

/** Writes down where the time went while something was done. */
export async function profiled<T>({ profileFolder }: Order, name: string, work: () => Promise<T>): Promise<T> {
  if (profileFolder === undefined) return work()
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.setSamplingInterval', { interval: 200 })
  await session.post('Profiler.start')
  const result = await work()
  const { profile } = await session.post('Profiler.stop')
  session.disconnect()
  await mkdir(profileFolder, { recursive: true })
  await writeFile(path.join(profileFolder, `${name}-${Date.now()}.cpuprofile`), JSON.stringify(profile))
  return result
}
