import { createBullBoard } from '@bull-board/api'
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter'
import { HonoAdapter } from '@bull-board/hono'
import { serveStatic } from '@hono/node-server/serve-static'
import { Hono } from 'hono'
import type { Producer } from '../queues/bullmq/producer.ts'
import { ask } from '../queues/bullmq/store.ts'
import { type AccessVariables, allows } from './access.ts'

/**
 * Bull Board under `path`, on whichever store the queues are in. It is made at the first visit and not before: a queue
 * that is away when the process starts must not keep it from starting. Who may not operate gets buttons that do nothing
 * to press: the same pages, read only.
 */
export function bullBoard(path: string, producer: Producer): Hono<{ Variables: AccessVariables }> {
  const boards = new Map<boolean, Promise<Hono>>()
  const board = (readOnlyMode: boolean): Promise<Hono> => {
    const made = boards.get(readOnlyMode) ?? makeBoard(path, producer, readOnlyMode)
    boards.set(readOnlyMode, made)
    made.catch(() => boards.delete(readOnlyMode))
    return made
  }
  return new Hono<{ Variables: AccessVariables }>().all('*', async (c) => {
    const routes = await board(!allows(c.get('scope'), 'operate'))
    const response = await routes.fetch(c.req.raw, c.env)
    // Bull Board answers 500 to anything; a store that is away is said as everywhere else.
    if (response.status === 500)
      await ask(producer.store, 'Bull Board has nothing to show', () => producer.store.look())
    return response
  })
}

async function makeBoard(path: string, producer: Producer, readOnlyMode: boolean): Promise<Hono> {
  const queues = await producer.all()
  const serverAdapter = new HonoAdapter(serveStatic).setBasePath(path)
  createBullBoard({
    queues: queues.map(
      ({ definition, queue }) => new BullMQAdapter(queue, { displayName: definition.name, readOnlyMode }),
    ),
    serverAdapter,
    options: { uiConfig: { boardTitle: 'Sandman queues' } },
  })
  return new Hono().route(path, serverAdapter.registerPlugin())
}
