import { randomUUID } from 'node:crypto'
import type { Job } from '@agentuity/server'
import { BackendError, type Call } from '../backend.ts'
import type { Inside, Shell } from '../shell/shell.ts'
import { overtaken } from '../targets.ts'
import type { Account } from './account.ts'
import { Unanswered } from './errors.ts'
import { readHistory } from './history.ts'
import { expired, findInstance, type Running, requireInstance, requireRunning } from './instance.ts'
import { readOutput } from './output.ts'
import { ask } from './request.ts'
import { lookUntil, nap } from './waiting.ts'

/** Runs a script, and says last of all how it ended: Agentuity keeps an output apart from its job, and may cut it. */
const TELLING = 'sh -c "$1"; printf "%s%s\\n" "$2" $?'

/** The output of a script that has ended, and is not all there, is read so often. */
const READS_MAX = 5
const READ_AGAIN_MS = 200

/**
 * Does something with what runs inside, and looks afterwards whether it still is what it was: one that fell asleep between the
 * look and the work may have been woken by the work itself.
 */
export async function enter<T>(
  account: Account,
  instance: Running,
  call: Call,
  work: (inside: Inside) => Promise<T>,
): Promise<T> {
  const { ref, incarnation } = instance
  let done: T
  try {
    done = await work(insideOf(account, instance))
  } catch (error) {
    await explain(account, instance, call, error)
    throw error
  }
  const now = await readHistory(account, ref, call)
  if (now.incarnation !== incarnation) throw overtaken(ref, 'it has slept since, and this may have woken it')
  return done
}

/** Fails with what is true of the sandbox, if it is not what it was. */
async function explain(account: Account, { ref, incarnation }: Running, call: Call, error: unknown) {
  const isTelling = !(error instanceof BackendError) || error.type === 'sandbox_unreachable'
  if (!isTelling || call.signal.aborted) return
  const now = await findInstance(account, ref, call)
  if (!now) throw expired(ref)
  if (now.is !== 'changing') requireRunning(now, { ref, incarnation })
}

/** Its agents are kept under its own name, which a sandbox that begins as a copy of it does not have. */
export function insideOf(account: Account, instance: Running): Inside {
  return { root: instance.ref, shell: shellOf(account, instance) }
}

/**
 * Scripts run as Agentuity's jobs: of its executions there is only one at a time, and one that listens to an agent for minutes
 * would keep all others out. What they print is taken for text on its way.
 */
function shellOf(account: Account, { ref, incarnation }: Running): Shell {
  // It was just seen to run. Whatever comes after the first script may come much later, when a command is given up for example.
  let isJustSeen = true
  const beginHere = async (script: string, call: Call) => {
    if (!isJustSeen) requireRunning(await requireInstance(account, ref, call), { ref, incarnation })
    isJustSeen = false
    return begin(account, ref, script, call)
  }
  return {
    carries: 'text',
    async run(script, call) {
      const { job, mark } = await beginHere(script, call)
      for (let reads = 0; reads < READS_MAX; ) {
        const read = await collect(await streamOf(account, job, call), mark, call)
        if (read) return read
        // One that sleeps says no more; one that runs has cut its output, and gives it again.
        requireRunning(await requireInstance(account, ref, call), { ref, incarnation })
        const { status } = await lookAtJob(account, job, call)
        if (status !== 'pending' && status !== 'running') reads++
        await nap(READ_AGAIN_MS, call)
      }
      throw new Unanswered(new Error('a script has ended, and not all of its output comes'))
    },
    async *stream(script, call) {
      const { job, mark } = await beginHere(script, call)
      let exitCode: number | undefined
      try {
        const reading = readOutput(await streamOf(account, job, call), mark, call)
        for (let next = await reading.next(); ; next = await reading.next()) {
          if (!next.done) {
            yield next.value
            continue
          }
          if (next.value === undefined) throw new Unanswered(new Error('a stream has ended before its script'))
          exitCode = next.value.exitCode
          return next.value
        }
      } finally {
        if (exitCode === undefined) stop(account, job) // it would end by itself, some minutes later
      }
    },
  }
}

async function begin(account: Account, ref: string, script: string, call: Call) {
  const mark = `#${randomUUID()} ` // nothing that could get lost in a text
  const command = ['sh', '-c', TELLING, 'sandman', script, mark]
  const job = await ask(account, call, (sdk, client, common) =>
    sdk.jobCreate(client, { ...common, sandboxId: ref, options: { command } }),
  )
  return { job, mark }
}

/** It may not be known before the job has begun. */
async function streamOf(account: Account, job: Job, call: Call): Promise<string> {
  const look = () => lookAtJob(account, job, call)
  const { stdoutStreamUrl: url, status } = job.stdoutStreamUrl
    ? job
    : await lookUntil(account.patience.lagMs, call, look, (seen) => Boolean(seen.stdoutStreamUrl))
  if (url) return url
  throw new Unanswered(new Error(`a job has no output, and is ${status}`))
}

function lookAtJob(account: Account, { sandboxId, jobId }: Job, call: Call): Promise<Job> {
  return ask(account, call, (sdk, client, common) => sdk.jobGet(client, { ...common, sandboxId, jobId }))
}

/** All of it, and how it ended; undefined where the end is missing. */
async function collect(url: string, mark: string, call: Call) {
  const pieces: Uint8Array[] = []
  const reading = readOutput(url, mark, call)
  for (let next = await reading.next(); ; next = await reading.next()) {
    if (!next.done) pieces.push(next.value)
    else return next.value && { exitCode: next.value.exitCode, output: Buffer.concat(pieces).toString() }
  }
}

function stop(account: Account, { sandboxId, jobId }: Job): void {
  const call = { signal: AbortSignal.timeout(account.patience.requestMs) }
  ask(account, call, (sdk, client, common) => sdk.jobStop(client, { ...common, sandboxId, jobId, force: true })).catch(
    () => {},
  )
}
