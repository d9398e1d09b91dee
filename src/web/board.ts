import { createBullBoard } from '@bull-board/api'
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter'
import { HonoAdapter } from '@bull-board/hono'
import { serveStatic } from '@hono/node-server/serve-static'
import { Hono } from 'hono'
import { getPath } from 'hono/utils/url'
import { SandmanError } from '../errors.ts'
import type { Fleet } from '../fleet/fleet.ts'
import { allows } from './access.ts'
import { BULL_BOARD } from './headers.ts'
import { type Routes, type WebContext, withoutBase } from './routes.ts'

const PATH = '/queues'

/** Its files have a hash of what is in them in their names. */
const KEEP_FILES = 'private, max-age=86400'

/**
 * Bull Board, on whichever store the queues are in. It is made at the first visit and not before: a queue that is away when
 * the process starts must not keep it from starting. Who may not operate gets buttons that do nothing to press: the same
 * pages, read only.
 */
export function serveBoard(routes: Routes, fleet: Fleet): void {
  const { basePath } = routes
  const boards = new Map<boolean, Promise<Hono>>()
  const board = (readOnlyMode: boolean): Promise<Hono> => {
    const made = boards.get(readOnlyMode) ?? makeBoard(fleet, { readOnlyMode, basePath })
    boards.set(readOnlyMode, made)
    made.catch(() => boards.delete(readOnlyMode))
    return made
  }
  const show = async (c: WebContext): Promise<Response> => {
    const pages = await board(!allows(c.get('scope'), 'operate'))
    const response = await pages.fetch(c.req.raw, c.env)
    // Bull Board answers 500 to anything; a store that is away is said as everywhere else.
    if (response.status === 500) await explain(fleet)
    const body = isPage(response) ? withoutForeignFonts(await response.text()) : response.body
    const answer = new Response(body, response)
    answer.headers.set('content-security-policy', BULL_BOARD)
    if (response.ok && c.req.path.includes(`${PATH}/static/`)) answer.headers.set('cache-control', KEEP_FILES)
    return answer
  }
  routes.add('GET', `${PATH}/`, 'read', (c) => c.redirect(`${basePath}${PATH}`))
  routes.add('GET', `${PATH}/*`, 'read', show)
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'] as const) routes.add(method, `${PATH}/*`, 'operate', show)
}

async function explain(fleet: Fleet): Promise<void> {
  const { queue } = (await fleet.health()).checks
  if (!queue.ok) throw new SandmanError('queue_unreachable', `Bull Board has nothing to show: ${queue.message}`)
}

function isPage(response: Response): boolean {
  return response.headers.get('content-type')?.startsWith('text/html') === true
}

/** Looking at one's queues is nothing that another company needs to hear of; without them the page has the system's font. */
function withoutForeignFonts(page: string): string {
  return page.replaceAll(/<link[^>]*href="https:\/\/fonts\.[^>]*>/g, '')
}

async function makeBoard(
  fleet: Fleet,
  { readOnlyMode, basePath }: { readOnlyMode: boolean; basePath: string },
): Promise<Hono> {
  const queues = await fleet.queues()
  const serverAdapter = new HonoAdapter(serveStatic).setBasePath(`${basePath}${PATH}`)
  createBullBoard({
    queues: queues.map(({ name, queue }) => new BullMQAdapter(queue, { displayName: name, readOnlyMode })),
    serverAdapter,
    options: { uiConfig: { boardTitle: 'Sandman queues' } },
  })
  // It finds its files by the whole path.
  const pages = new Hono({ getPath: (request) => `${basePath}${withoutBase(getPath(request), basePath)}` })
  return pages.route(`${basePath}${PATH}`, serverAdapter.registerPlugin())
}
