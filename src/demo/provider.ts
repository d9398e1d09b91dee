import { appendFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Backend, BackendError, type Call } from '../backends/backend.ts'
import { openLocalBackend } from '../backends/local/backend.ts'

/** What a provider does now and then, and its documentation does not mention. */
export type Fault =
  /** A pause is answered before its checkpoint is stored, and then that fails. */
  | 'loses uploads'
  /** Nobody there answers. */
  | 'is away'
  /** A pause takes as long as this lasts. */
  | 'takes its time'

export type ProviderOptions = { name: string; canPause: boolean; folder: string; fleet: string }

const POLL_MS = 20

/**
 * The provider of the demo: the local backend, whose sandboxes are real processes, with faults that are switched on from
 * outside. They stand in a file, because who plays the incident and the worker that it happens to are two processes.
 */
export function openProvider({ name, canPause, folder, fleet }: ProviderOptions): Backend {
  const local = openLocalBackend({ folder, fleet })
  const { pausing, snapshots } = local
  if (pausing === 'none' || snapshots === 'none') throw new Error('the local backend can do both')

  const reach = async () => {
    if ((await readFault(folder)) === 'is away')
      throw new BackendError('sandbox_unreachable', 'The provider does not answer: connect ETIMEDOUT')
  }
  const noted = async (call: string, ref: string) => {
    await reach()
    await appendFile(callsFile(folder), `${call} ${ref}\n`)
  }

  return {
    ...local,
    name,
    async look(ref, call) {
      await reach()
      return local.look(ref, call)
    },
    async end(target, call) {
      await noted('end', target.ref)
      await local.end(target, call)
    },
    pausing: canPause
      ? {
          ...pausing,
          async suspend(target, asked, call) {
            await noted('suspend', target.ref)
            await whileItTakesItsTime(folder, call)
            const { checkpointRef } = await pausing.suspend(target, asked, call)
            const isLost = (await readFault(folder)) === 'loses uploads'
            if (isLost && checkpointRef !== undefined) await pausing.discard(checkpointRef, call)
            return { checkpointRef }
          },
          async resume(sleeping, asked, call) {
            await noted('resume', sleeping.ref)
            await pausing.resume(sleeping, asked, call)
          },
        }
      : 'none',
    snapshots: canPause
      ? {
          ...snapshots,
          async take(target, asked, call) {
            await noted('snapshot', target.ref)
            return snapshots.take(target, asked, call)
          },
        }
      : 'none',
  }
}

const faultFile = (folder: string) => path.join(folder, 'fault')
const callsFile = (folder: string) => path.join(folder, 'calls')

export async function setFault(folder: string, fault: Fault | undefined): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await writeFile(faultFile(folder), fault ?? '')
}

async function readFault(folder: string): Promise<string> {
  return readIfThere(faultFile(folder))
}

/** How often a provider was really asked for something, by whomever. */
export async function countCalls(folder: string, call: string, ref: string): Promise<number> {
  return (await readIfThere(callsFile(folder))).split('\n').filter((line) => line === `${call} ${ref}`).length
}

async function readIfThere(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw error
  })
}

async function whileItTakesItsTime(folder: string, { signal }: Call): Promise<void> {
  while ((await readFault(folder)) === 'takes its time') await sleep(POLL_MS, undefined, { signal })
}
