import { type ChildProcess, fork } from 'node:child_process'
import path from 'node:path'
import { onTestFinished } from 'vitest'
import type { Measured, WorkerOrder } from './worker-process.ts'
import { QUICK, UNSCHEDULED, type World } from './world.ts'

type WorkerProcess = {
  child: ChildProcess
  exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  /** Resolves when these operations are where the worker was told to die with them. */
  reached(operationIds: string[]): Promise<void>
  measure(): Promise<Measured>
}

/** A real worker process in a world. Resolves when it takes jobs. */
export async function forkWorker(
  { place, provider, dataFolder }: World,
  order: Partial<Pick<WorkerOrder, 'queues' | 'patience' | 'graceMs' | 'dieAt'>> = {},
): Promise<WorkerProcess> {
  const whole: WorkerOrder = {
    place,
    providerUrl: provider.url,
    dataFolder,
    patience: QUICK,
    queues: UNSCHEDULED,
    ...order,
  }
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
  const there = new Set<string>()
  const onMessage = new EventTarget()
  child.on('message', (message: { reached?: string }) => {
    if (message.reached) there.add(message.reached)
    onMessage.dispatchEvent(new Event('message'))
  })
  const told = () => new Promise((resolve) => onMessage.addEventListener('message', resolve, { once: true }))
  await Promise.race([
    told(),
    // One that dies at once may never say that it is ready.
    exited.then(({ code }) => {
      if (code !== null) throw new Error(`the worker process ended with ${code}`)
    }),
  ])
  return {
    child,
    exited,
    async measure() {
      const answer = Promise.withResolvers<Measured>()
      const listen = (message: { measured?: Measured }) => {
        if (message.measured) answer.resolve(message.measured)
      }
      child.on('message', listen)
      child.send('measure')
      return answer.promise.finally(() => child.off('message', listen))
    },
    async reached(operationIds) {
      while (!operationIds.every((id) => there.has(id))) {
        const ended = await Promise.race([told().then(() => false), exited.then(() => true)])
        if (ended) throw new Error('the worker ended before it was where it was to die')
      }
    },
  }
}
