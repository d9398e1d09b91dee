import { expect } from 'vitest'
import { loseProcesses, type World } from '../support/world.ts'

export const SECRET = 'a-secret-of-the-example'

type Shown = { state: string; url?: string; offer?: string }

/** One of the web apps, as its page asks it. */
export type Drive = (
  verb: 'look' | 'open' | 'pause' | 'rebuild',
  project: string,
  click?: string,
) => Promise<{ status: number; body: Shown }>

type Ask = (path: string, init?: { method?: string; body?: string; token?: string }) => Promise<Response>

export const asking =
  (url: string): Ask =>
  (path, { token, ...init } = {}) =>
    fetch(`${url}${path}`, {
      ...init,
      headers: {
        'content-type': 'application/json',
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      },
    })

/** The routes that all of the web apps have. */
export const driving =
  (url: string): Drive =>
  async (verb, project, click) => {
    const path = verb === 'pause' || verb === 'rebuild' ? `/${verb}` : ''
    const answer = await fetch(`${url}/projects/${project}/preview${path}`, {
      method: verb === 'look' ? 'GET' : 'POST',
      headers: { ...(click !== undefined && { 'idempotency-key': click }) },
    })
    return { status: answer.status, body: (await answer.json()) as Shown }
  }

const read = async ({ body }: { body: Shown }) => (await fetch(body.url as string)).text()

/** A project's preview from its first day on: it sleeps, and wakes as it was. Answers with its sandbox. */
export async function walkPreview(world: World, drive: Drive, project: string): Promise<string> {
  expect(await drive('look', project)).toMatchObject({ status: 404, body: { state: 'none' } })

  // Two tabs at once, and one sandbox.
  const [one, other] = await Promise.all([drive('open', project, 'click-1'), drive('open', project, 'click-2')])
  expect(one).toMatchObject({ status: 200, body: { state: 'ready', url: expect.stringContaining('http://') } })
  expect(other).toEqual(one)
  const { items } = await world.fleet.list({ metadata: { preview: project } })
  expect(items).toHaveLength(1)
  const id = items[0]?.id as string
  const before = await read(one)
  expect(before).toContain(`${project} runs since`)

  expect(await drive('pause', project, 'click-3')).toMatchObject({ status: 200, body: { state: 'asleep' } })
  const woken = await drive('open', project, 'click-4')
  expect(woken).toMatchObject({ status: 200, body: { state: 'ready' } })
  expect(await read(woken)).toBe(before)
  // The answer to an earlier click was lost, and it is sent again: that must not put it to sleep now.
  expect(await drive('pause', project, 'click-3')).toMatchObject({ status: 200, body: { state: 'ready' } })
  // There is nothing to rebuild, and nothing is.
  expect(await drive('rebuild', project, 'click-5')).toEqual(woken)
  expect(await read(woken)).toBe(before)
  return id
}

/** And the day on which it was lost, and what comes after it. */
export async function walkLostPreview(world: World, drive: Drive, project: string): Promise<string> {
  const id = await walkPreview(world, drive, project)
  const before = await read(await drive('look', project))
  expect(await drive('pause', project, 'click-6')).toMatchObject({ status: 200, body: { state: 'asleep' } })
  await loseProcesses(world, await world.fleet.get(id))
  const lost = { status: 410, body: { state: 'failed', offer: 'rebuild' } }
  expect(await drive('open', project, 'click-7')).toMatchObject(lost)
  expect(await drive('look', project)).toMatchObject(lost)
  const rebuilt = await drive('rebuild', project, 'click-8')
  expect(rebuilt).toMatchObject({ status: 200, body: { state: 'ready' } })
  expect(await read(rebuilt)).not.toBe(before)
  expect((await world.fleet.list({ metadata: { preview: project } })).items.map((each) => each.id)).toEqual([id])
  return id
}

/** What every app that mounts Sandman may expect. */
export async function expectMounted(ask: Ask, base: string): Promise<void> {
  expect((await ask(`${base}/healthz`)).status).toBe(200)
  expect((await ask(`${base}/v1`)).status).toBe(401)
  expect((await ask(`${base}/v1`, { token: 'wrong-wrong-wrong-wrong' })).status).toBe(401)
  const body = JSON.stringify({ backend: 'local', metadata: { from: base } })
  const made = await ask(`${base}/v1/sandboxes`, { method: 'POST', body, token: SECRET })
  expect(made.status).toBe(202)
  const { operation, sandbox } = (await made.json()) as { operation: { id: string }; sandbox: { id: string } }
  const location = new URL(made.headers.get('location') as string, `http://x${base}/v1/sandboxes`).pathname
  expect(location).toBe(`${base}/v1/operations/${operation.id}`)
  expect(await (await ask(location, { token: SECRET })).json()).toMatchObject({ operation: { id: operation.id } })
  const listed = await ask(`${base}/v1/sandboxes?limit=1`, { token: SECRET })
  expect(await listed.json()).toMatchObject({ items: [{ id: sandbox.id, metadata: { from: base } }] })
  const refused = await ask(`${base}/v1/sandboxes`, { method: 'POST', body: '{"backend":5}', token: SECRET })
  expect(refused.status).toBe(422)
  expect(refused.headers.get('content-type')).toBe('application/problem+json')
  expect((await ask(`${base}/v1/sweep`, { method: 'POST', token: SECRET })).status).toBe(403)
  const { servers } = (await (await ask(`${base}/openapi.json`, { token: SECRET })).json()) as {
    servers: { url: string }[]
  }
  expect(servers).toEqual([{ url: '.' }])
}
