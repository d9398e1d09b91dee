import { type ChildProcess, fork } from 'node:child_process'
import path from 'node:path'
import { onTestFinished } from 'vitest'
import type { WorkerOrder } from './worker-process.ts'
import { QUICK, type World } from './world.ts'

export type WorkerProcess = {
  child: ChildProcess
  exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
}

/** A real worker process in a world. Resolves when it takes jobs. */
export async function forkWorker(
  { place, provider, dataFolder }: World,
  order: Partial<Pick<WorkerOrder, 'queues' | 'patience' | 'graceMs' | 'dieAfter'>> = {},
): Promise<WorkerProcess> {
  const whole: WorkerOrder = { place, providerUrl: provider.url, dataFolder, patience: QUICK, ...order }
  const child = fork(path.join(import.meta.dirname, 'worker-process.ts'), [JSON.stringify(whole)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    execArgv: [],
  })
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) =>
    child.once('exit', (code, signal) => resolve({ code, signal })),
  )
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await exited
  })
  await Promise.race([
    new Promise((resolve) => child.once('message', resolve)),
    // One that dies at an early step may never say that it is ready.
    exited.then(({ code }) => {
      if (code !== null) throw new Error(`the worker process ended with ${code}`)
    }),
  ])
  return { child, exited }
}
