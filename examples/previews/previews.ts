import { createHash } from 'node:crypto'
import { type Answer, type Fleet, isSandmanError, type OperationError, type Sandbox, type SandmanError } from 'sandman'

/** What the page of a project shows: its preview, or what its user can do about it. */
export type Preview =
  | { state: 'none' | 'asleep' }
  | { state: 'ready'; url: string | null }
  /** It takes longer than anybody should wait for an answer. It goes on; the page asks again. */
  | { state: 'working' }
  | { state: 'failed'; offer: 'retry' | 'rebuild' | 'support'; errorType: string; message: string }

/** How long somebody who has clicked waits for an answer. */
const WAIT = '30s'

/**
 * An app builder's previews: every project has one sandbox, with its dev server in it, that sleeps while nobody looks. `click` is the
 * `Idempotency-Key` that the page sends: the same one with every retry of a click, another one with the next click.
 */
export function previewsOf(fleet: Fleet) {
  /** Found by its metadata. An app with a database of its own keeps the id with the project instead. */
  async function find(project: string): Promise<Sandbox | undefined> {
    let cursor: string | undefined
    do {
      const page = await fleet.list({ metadata: { preview: project }, cursor, limit: 1 })
      if (page.items[0]) return page.items[0]
      cursor = page.nextCursor ?? undefined
    } while (cursor !== undefined)
    return undefined
  }

  /** Wakes the preview of a project, and makes it the first time. */
  async function open(project: string, click?: string): Promise<Preview> {
    const found = await find(project)
    if (found) return show(await fleet.resume(found.id, { wait: WAIT, idempotencyKey: keyOf(project, click) }))
    // The key is the project's and not the click's: of two tabs that open it at once, both get the one sandbox.
    return show(await fleet.spawn({ ...specOf(project), wait: WAIT, idempotencyKey: `first preview of ${project}` }))
  }

  return {
    open,

    /** The page asks once a minute, and so says that somebody looks: 15 minutes after the last time, the reaper pauses it. */
    async look(project: string): Promise<Preview> {
      const found = await find(project)
      return found ? showSandbox(await fleet.touch(found.id)) : { state: 'none' }
    },

    async pause(project: string, click?: string): Promise<Preview> {
      const found = await find(project)
      if (!found) return { state: 'none' }
      return show(await fleet.pause(found.id, { wait: WAIT, idempotencyKey: keyOf(project, click) }))
    },

    /** What the user has agreed to when there is nothing to wake any more: a fresh one, under the same id. */
    async rebuild(project: string, click?: string): Promise<Preview> {
      const found = await find(project)
      if (!found) return open(project, click)
      const respawn = { ifLost: 'respawn', wait: WAIT, idempotencyKey: keyOf(project, click) } as const
      return show(await fleet.resume(found.id, respawn))
    },
  }
}

/** Keys are the fleet's: what strangers send must not meet the keys of another project. */
const keyOf = (project: string, click: string | undefined) => click && `${project}/${click}`

function show({ operation, sandbox }: Answer): Preview {
  if (operation.error) return showError(operation.error)
  return operation.status === 'succeeded' ? showSandbox(sandbox) : { state: 'working' }
}

function showSandbox({ state, previewUrl, goneReason }: Sandbox): Preview {
  if (state === 'running') return { state: 'ready', url: previewUrl }
  if (state === 'suspended') return { state: 'asleep' }
  if (state !== 'gone') return { state: 'working' }
  return { state: 'failed', offer: 'rebuild', errorType: 'sandbox_gone', message: `It has ended: ${goneReason}.` }
}

/** The message is for people; the type is what to decide by. */
function showError({ errorType, message }: OperationError): Preview {
  switch (errorType) {
    case 'sandbox_unreachable':
    case 'rate_limited':
    case 'sandbox_busy':
      return { state: 'failed', offer: 'retry', errorType, message }
    case 'sandbox_expired':
    case 'sandbox_gone':
    case 'checkpoint_missing':
    case 'checkpoint_corrupt':
      return { state: 'failed', offer: 'rebuild', errorType, message }
    default: // the provider's account, or a bug: nothing that the user of a preview could do anything about
      return { state: 'failed', offer: 'support', errorType, message }
  }
}

/** How an operation has ended is a value; what is thrown was never asked for, or nobody knows: then the same key finds out. */
export async function answer(work: () => Promise<Preview>): Promise<{ status: number; body: Preview }> {
  const body = await work().catch((error: unknown): Preview => {
    if (!isSandmanError(error)) throw error
    return { state: 'failed', offer: offerAfter(error), errorType: error.code, message: error.message }
  })
  return { status: statusOf(body), body }
}

function offerAfter({ code }: SandmanError): 'retry' | 'support' {
  const isAway = code === 'database_unreachable' || code === 'queue_unreachable' || code === 'fleet_closed'
  return isAway ? 'retry' : 'support'
}

function statusOf(preview: Preview): number {
  if (preview.state === 'working') return 202
  if (preview.state === 'none') return 404
  if (preview.state !== 'failed') return 200
  return { retry: 503, rebuild: 410, support: 500 }[preview.offer]
}

/** Stands for a template with somebody's code in it. It tells since when it runs, so that one sees whether it is still the same. */
const SITE = `
  const since = new Date().toISOString()
  const { PROJECT, PORT } = process.env
  require('node:http').createServer((_, page) => page.end(PROJECT + ' runs since ' + since + '\\n')).listen(PORT, '127.0.0.1')`

function specOf(project: string) {
  // At a provider every sandbox has ports of its own. The local backend's share those of this machine.
  const port = 20_000 + (createHash('sha256').update(project).digest().readUInt16BE() % 10_000)
  return {
    backend: 'local',
    agent: { command: ['node', '-e', SITE], env: { PROJECT: project, PORT: String(port) } },
    wake: { previewPort: port },
    ttl: { idle: '15m', retention: '30d' },
    metadata: { preview: project },
  }
}
