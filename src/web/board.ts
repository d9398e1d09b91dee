import { createBullBoard } from '@bull-board/api'
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter'
import { HonoAdapter } from '@bull-board/hono'
import { serveStatic } from '@hono/node-server/serve-static'
import { Hono } from 'hono'
import { getPath } from 'hono/utils/url'
import { z } from 'zod'
import { parse } from '../checked.ts'
import { SandmanError } from '../errors.ts'
import type { Fleet } from '../fleet/fleet.ts'
import { allows, nothingThere } from './access.ts'
import { BULL_BOARD } from './headers.ts'
import { type Routes, type WebContext, withoutBase } from './routes.ts'

const PATH = '/queues'

/** Its files have a hash of what is in them in their names. */
const KEEP_FILES = 'private, max-age=86400'

/** More than its own settings offer, and pages that nobody turns to. Bull Board itself takes any number, and reads so many jobs. */
const JOBS_PER_PAGE_MAX = 100
const PAGE_MAX = 10_000
/** Of what it says when it fails, as much as a log needs. */
const SAID_CHARS_MAX = 1_000

/** What Bull Board is asked for, as it reads it. It would hand all of it on to the store as it is; what is empty is not there. */
const Asked = z.object({
  activeQueue: word(128),
  status: word(32),
  page: count(PAGE_MAX),
  jobsPerPage: count(JOBS_PER_PAGE_MAX),
})

function word(max: number) {
  const message = `must be a name of at most ${max} letters, digits, _, ., : and -`
  return z
    .string()
    .max(max, message)
    .regex(/^[\w.:-]*$/, message)
    .optional()
}

function count(max: number) {
  const isCount = (text: string) => text === '' || (/^\d{1,9}$/.test(text) && Number(text) >= 1 && Number(text) <= max)
  return z.string().refine(isCount, `must be a number from 1 to ${max}`).optional()
}

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
    parse(Asked, c.req.query(), '(query)')
    // A name that no store can even look for: there is nothing that is called so.
    if (c.req.path.includes('\0')) return nothingThere(c)
    const pages = await board(!allows(c.get('scope'), 'operate'))
    const response = await pages.fetch(c.req.raw, c.env)
    if (response.status >= 500) throw await whatFailed(fleet, response)
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

/** Bull Board answers 500 to anything, in words that are for the log; a store that is away is said as everywhere else. */
async function whatFailed(fleet: Fleet, response: Response): Promise<Error> {
  const said = (await response.text()).slice(0, SAID_CHARS_MAX)
  const { queue } = (await fleet.health()).checks
  if (!queue.ok) return new SandmanError('queue_unreachable', `Bull Board has nothing to show: ${queue.message}`)
  return new Error(`Bull Board answered ${response.status}: ${said}`)
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
    options: {
      uiConfig: { boardTitle: 'Sandman queues', miscLinks: [{ text: 'Sandman console', url: `${basePath}/` }] },
    },
  })
  // It finds its files by the whole path.
  const pages = new Hono({ getPath: (request) => `${basePath}${withoutBase(getPath(request), basePath)}` })
  return pages.route(`${basePath}${PATH}`, serverAdapter.registerPlugin())
}
