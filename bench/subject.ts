import { fork } from 'node:child_process'
import path from 'node:path'
import type { Order } from './subjects/order.ts'
import type { Question, Reply } from './subjects/serve.ts'

/** How long a subject may take for one thing that it was asked. */
const ANSWER_MS = 300_000

const COMPILED = path.join(import.meta.dirname, '..', 'node_modules', '.cache', 'sandman-bench')

/** What is measured, in a process of its own, so that nobody else's work is measured with it. */
export type Subject = {
  pid: number
  ask<Answer>(call: string, argument?: unknown): Promise<Answer>
  stop(): Promise<void>
}

export async function startSubject(name: string, order: Order, execArgv: string[] = []): Promise<Subject> {
  const file = path.join(import.meta.dirname, 'subjects', `${name}.ts`)
  const child = fork(file, [JSON.stringify(order)], {
    execArgv,
    // What was compiled once need not be compiled by each of them.
    env: { ...process.env, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? COMPILED },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const pending = new Map<number, { resolve(answer: unknown): void; reject(error: unknown): void }>()
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const ready = Promise.withResolvers<void>()
  child.once('exit', (code) => {
    const error = new Error(`The process of ${name} ended with ${code}.`)
    ready.reject(error)
    for (const { reject } of pending.values()) reject(error)
  })
  child.on('message', (message: Reply | 'ready') => {
    if (message === 'ready') return ready.resolve()
    const asked = pending.get(message.id)
    pending.delete(message.id)
    if (message.error === undefined) asked?.resolve(message.answer)
    else asked?.reject(new Error(`${name}: ${message.error}`))
  })
  await ready.promise

  let asked = 0
  const ask = async <Answer>(call: string, argument?: unknown): Promise<Answer> => {
    const id = asked++
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    pending.set(id, { resolve, reject })
    const timer = setTimeout(() => reject(new Error(`${name} did not answer ${call} in time.`)), ANSWER_MS)
    child.send({ id, call, argument } satisfies Question)
    return promise.finally(() => clearTimeout(timer)) as Promise<Answer>
  }
  return {
    pid: child.pid as number,
    ask,
    async stop() {
      await ask('stop').catch(() => {})
      if (child.connected) child.disconnect()
      await ended
    },
  }
}
