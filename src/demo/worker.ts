/** The worker of the demo, in a process of its own: as `sandman worker`, with the demo's providers. */
import path from 'node:path'
import { describeError } from '../errors.ts'
import { Events } from '../events.ts'
import { createWorker } from '../fleet/create-worker.ts'
import { runUntilSignal } from '../fleet/shutdown.ts'
import { QUEUE_NAMES } from '../queues/names.ts'
import { openProvider, type ProviderOptions } from './provider.ts'

export type WorkerOrder = {
  databaseUrl: string
  fleet: string
  /** Where the providers of Sandman's columns are, each in a folder with its name. */
  folder: string
  providers: readonly Pick<ProviderOptions, 'name' | 'canPause'>[]
}
export type WorkerAnswer = { ready: true } | { failed: string }

const order = await new Promise<WorkerOrder>((resolve) => process.once('message', resolve))
const answer = (said: WorkerAnswer) => process.send?.(said)

try {
  await runUntilSignal(() => start(order), { events: new Events(), supervised: true })
} catch (error) {
  answer({ failed: describeError(error) })
  process.exitCode = 1
}
process.disconnect?.()
process.exit()

async function start({ databaseUrl, fleet, folder, providers }: WorkerOrder) {
  const worker = await createWorker({
    databaseUrl,
    fleet,
    backends: providers.map((provider) =>
      openProvider({ ...provider, folder: path.join(folder, provider.name), fleet }),
    ),
    // Nothing is played on the housekeeping: it would only find out on its own what a play is about to show.
    queues: QUEUE_NAMES.filter((name) => name !== 'reaper' && name !== 'sweeper'),
    graceMs: 5_000,
  })
  answer({ ready: true })
  return worker
}
