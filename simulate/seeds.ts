import { fork } from 'node:child_process'
import os from 'node:os'
import path from 'node:path'
import pg from 'pg'
import type { Message, Order, Trace } from './child.ts'
import type { RunResult } from './run.ts'

export type SeedsOptions = {
  /** Of the maintenance database of a Postgres that may be filled at will. */
  postgresUrl: string
  /** A database there that is migrated already: every process gets a copy of it. */
  template: string
  seeds: readonly number[]
  steps?: number | undefined
  trace?: Trace
  processes?: number
  /** No more after the first with which something was found. */
  untilFound?: boolean
  /** A module that exports what is put in the place of a part. */
  sabotage?: string | undefined
  /** Ends all that is under way; what was done by then is returned. */
  signal?: AbortSignal | undefined
  /** Told of each as it ends. */
  onResult?: (result: RunResult) => void
}

/** In real time, many times more than a run needs on a busy machine. */
const RUN_MS_MAX = 180_000

/** A run that could not be made, which says something about the simulation and not about Sandman. */
export type Failure = { seed: number; failure: string }

/** Makes the runs of many seeds, in several processes at once, and returns them in the order of the seeds. */
export async function runSeeds(options: SeedsOptions): Promise<{ results: RunResult[]; failures: Failure[] }> {
  const { seeds, processes = os.availableParallelism() } = options
  const results: RunResult[] = []
  const failures: Failure[] = []
  const count = Math.max(1, Math.min(processes, seeds.length))
  // Dealt like cards, so that whoever has the long ones has no more of them than the others.
  const hands = Array.from({ length: count }, (_, nth) => seeds.filter((_seed, at) => at % count === nth))
  await Promise.all(
    hands.map((hand, nth) =>
      runHand(options, nth, hand, (message) => {
        if ('failure' in message) failures.push(message)
        else {
          results.push(message.result)
          options.onResult?.(message.result)
        }
      }),
    ),
  )
  return { results: results.sort((a, b) => a.seed - b.seed), failures }
}

async function runHand(
  { postgresUrl, template, steps, trace, untilFound, sabotage, signal }: SeedsOptions,
  nth: number,
  seeds: number[],
  heard: (message: Message) => void,
): Promise<void> {
  const name = `simulate_${process.pid}_${nth}_${seeds[0]}`
  await administer(postgresUrl, `create database ${name} template ${template}`)
  try {
    const databaseUrl = postgresUrl.replace(/[^/]+$/, name)
    for (let left = seeds; left.length > 0; ) {
      const { ended, told } = await runChild(
        { databaseUrl, seeds: left, steps, trace, untilFound, sabotage },
        signal,
        heard,
      )
      if (untilFound && ended === 'code 0') return
      const [stuck, ...others] = left.filter((seed) => !told.has(seed))
      if (stuck === undefined) return
      heard({ seed: stuck, failure: `the process ended with ${ended} before this seed was run to its end` })
      left = signal?.aborted ? [] : others // one that hangs takes no other with it
    }
  } finally {
    await administer(postgresUrl, `drop database ${name} with (force)`)
  }
}

async function runChild(
  order: Order,
  signal: AbortSignal | undefined,
  heard: (message: Message) => void,
): Promise<{ ended: string; told: Set<number> }> {
  const child = fork(path.join(import.meta.dirname, 'child.ts'), [JSON.stringify(order)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    ...{ execArgv: [], killSignal: 'SIGKILL', ...(signal && { signal }) },
  })
  child.on('error', () => {}) // it was told to end, which its exit says as well
  const told = new Set<number>()
  // Code that waits for itself in a circle lets nobody else do anything, not even give up.
  const giveUp = () => child.kill('SIGKILL')
  let timer = setTimeout(giveUp, RUN_MS_MAX)
  child.on('message', (message: Message) => {
    told.add('result' in message ? message.result.seed : message.seed)
    clearTimeout(timer)
    timer = setTimeout(giveUp, RUN_MS_MAX)
    heard(message)
  })
  const ended = await new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => resolve(signal ?? `code ${code}`))
  })
  clearTimeout(timer)
  return { ended, told }
}

export async function administer(postgresUrl: string, statement: string): Promise<void> {
  const client = new pg.Client(postgresUrl)
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
