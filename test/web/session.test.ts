import { createHmac, hkdfSync } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { SESSION_MS } from '../../src/web/session.ts'
import { type Ask, bearer, FROM_HERE, form, logIn, SECRETS, TOKENS, useFleet, WRONG } from './setup.ts'

const { open, fleet } = useFleet()
const PUT = '/queues/api/queues/any/pause'

async function statusWith(ask: Ask, cookie: string): Promise<number> {
  return (await ask('/v1', { headers: { cookie } })).status
}

describe('a login', () => {
  test('gives a session for a token, and leads to where one wanted to go', async () => {
    const { ask } = open({ tokens: TOKENS })
    const page = await (await ask('/login?next=/queues?a=1%26b')).text()
    expect(page).toContain('<form method="post" action="/login">')
    expect(page).toContain('value="/queues?a=1&amp;b"')
    const answer = await ask('/login', form({ token: ` ${SECRETS.read} `, next: '/queues?a=1' }))
    expect(answer.status).toBe(303)
    expect(answer.headers.get('location')).toBe('/queues?a=1')
    const [cookie = ''] = answer.headers.getSetCookie()
    expect(cookie).toMatch(
      new RegExp(`^sandman-${fleet().name}=[\\w.-]+; Max-Age=${SESSION_MS / 1_000}; Path=/; HttpOnly; SameSite=Lax$`),
    )
    expect(cookie).not.toContain(SECRETS.read)
    expect(await statusWith(ask, cookie.replace(/;.*/, ''))).toBe(200)
    expect((await ask('/login', { headers: { cookie } })).headers.get('location')).toBe('/')
  })

  test('with a wrong token gives none, and says so', async () => {
    const { ask } = open({ tokens: TOKENS })
    for (const body of [{ token: WRONG }, { token: '' }, { secret: SECRETS.admin }]) {
      const answer = await ask('/login', form(body))
      expect(answer.status).toBe(401)
      expect(answer.headers.getSetCookie()).toEqual([])
      expect(await answer.text()).toContain('There is no such token.')
    }
  })

  test('has to come from our own form', async () => {
    const { ask } = open({ tokens: TOKENS })
    for (const headers of [{}, { 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'none' }, { origin: 'null' }]) {
      const answer = await ask('/login', form({ token: SECRETS.admin }, headers))
      expect(answer.status).toBe(403)
      expect(answer.headers.getSetCookie()).toEqual([])
    }
    // A browser that does not say which site it is on says where it comes from.
    expect((await ask('/login', form({ token: SECRETS.admin }, { origin: 'http://127.0.0.1' }))).status).toBe(303)
  })

  test.each([
    '//evil.example',
    '//evil.example/queues',
    'https://127.0.0.1/queues',
    '/\\evil.example',
    '\\\\evil.example',
    'https://evil.example/',
    'javascript:alert(1)',
    '/\t/evil.example',
    '/.//evil.example',
    '/x/..//evil.example',
    '/%2e//evil.example',
    'evil.example',
    ' //evil.example',
    '/login?next=/queues',
    'http://[',
  ])('never leads away from here: %j', async (next) => {
    const { ask } = open({ tokens: TOKENS })
    expect((await ask('/login', form({ token: SECRETS.read, next }))).headers.get('location')).toBe('/')
    expect(await (await ask(`/login?next=${encodeURIComponent(next)}`)).text()).toContain('type="hidden" value="/"')
  })
})

describe('a session', () => {
  test('may do what its token may, and changes only what our own pages ask for', async () => {
    const { ask } = open({ tokens: TOKENS })
    const put = async (cookie: string, headers: Record<string, string>) =>
      (await ask(PUT, { method: 'PUT', headers: { cookie, ...headers } })).status
    const [reader, operator] = [await logIn(ask, SECRETS.read), await logIn(ask, SECRETS.operate)]
    expect(await put(reader, FROM_HERE)).toBe(403)
    expect(await put(operator, FROM_HERE)).toBe(404)
    for (const headers of [{}, { 'sec-fetch-site': 'none' }, { 'sec-fetch-site': 'cross-site' }, { origin: 'null' }])
      expect(await put(operator, headers)).toBe(403)
    // A token that is shown counts, and not the session beside it.
    const both = { cookie: operator, ...bearer(WRONG).headers }
    expect((await ask('/v1', { headers: both })).status).toBe(401)
  })

  test('ends after its time, whatever the browser does', async () => {
    let nowMs = Date.now()
    const { ask } = open({ tokens: TOKENS, nowMs: () => nowMs })
    const cookie = await logIn(ask, SECRETS.read)
    nowMs += SESSION_MS - 1
    expect(await statusWith(ask, cookie)).toBe(200)
    nowMs += 1
    expect(await statusWith(ask, cookie)).toBe(401)
  })

  test('is accepted by every process that has the same tokens, and ends with its own token only', async () => {
    const cookie = await logIn(open({ tokens: TOKENS }).ask, SECRETS.operate)
    expect(await statusWith(open({ tokens: TOKENS }).ask, cookie)).toBe(200)
    const others = TOKENS.filter(({ name }) => name !== 'otto')
    const renewed = { name: 'otto', scope: 'operate', secret: 'another-secret-of-otto' } as const
    expect(await statusWith(open({ tokens: others }).ask, cookie)).toBe(401)
    expect(await statusWith(open({ tokens: [...others, renewed] }).ask, cookie)).toBe(401)
    const rotating = [...TOKENS, renewed]
    expect(await statusWith(open({ tokens: rotating }).ask, cookie)).toBe(200)
    expect(
      await statusWith(open({ tokens: rotating }).ask, await logIn(open({ tokens: rotating }).ask, renewed.secret)),
    ).toBe(200)
  })

  test('cannot be made up, stretched or lent to another token', async () => {
    const { ask } = open({ tokens: TOKENS })
    const cookie = await logIn(ask, SECRETS.read)
    const [key = '', value = ''] = cookie.split('=')
    const [, endsAt = '', signature = ''] = value.split('.')
    const name = (text: string) => Buffer.from(text).toString('base64url')
    const made = (who: string, until: string | number, sign: string) => `${key}=${name(who)}.${until}.${sign}`
    expect(await statusWith(ask, made('rita', endsAt, signature))).toBe(200)
    const lie = createHmac('sha256', '').update('').digest('base64url')
    const otherFleet = createHmac('sha256', Buffer.from(hkdfSync('sha256', SECRETS.read, 'sandman', 'session', 32)))
      .update(JSON.stringify(['another-fleet', 'rita', Number(endsAt)]))
      .digest('base64url')
    for (const forged of [
      made('anna', endsAt, signature),
      made('rita', Number(endsAt) + 1, signature),
      made('rita', `${endsAt}0`, signature),
      made('rita', endsAt, signature.slice(0, -2)),
      made('rita', endsAt, ''),
      made('rita', endsAt, lie),
      made('rita', endsAt, otherFleet),
      made('nobody', endsAt, lie),
      made('rita', 'Infinity', signature),
      `${key}=`,
      `${key}=..`,
      `${key}=${SECRETS.read}`,
    ])
      expect(await statusWith(ask, forged)).toBe(401)
  })

  test('ends in the browser that logs out, and in no other way from elsewhere', async () => {
    const { ask } = open({ tokens: TOKENS })
    const cookie = await logIn(ask, SECRETS.read)
    const leave = (headers: Record<string, string>) =>
      ask('/logout', { method: 'POST', headers: { cookie, ...headers } })
    expect((await leave({})).status).toBe(403)
    expect((await leave({ 'sec-fetch-site': 'cross-site' })).status).toBe(403)
    const left = await leave(FROM_HERE)
    expect(left.status).toBe(303)
    expect(left.headers.get('location')).toBe('/login')
    expect(left.headers.getSetCookie()).toEqual([`sandman-${fleet().name}=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax`])
  })
})

describe('over https', () => {
  const secure = { 'x-forwarded-proto': 'https', ...FROM_HERE }

  test('the cookie is for https alone, under a name that nobody else can give one', async () => {
    const { ask } = open({ tokens: TOKENS, proxies: 1 })
    const answer = await ask('/login', form({ token: SECRETS.read }, secure))
    const [cookie = ''] = answer.headers.getSetCookie()
    expect(cookie).toMatch(/^__Host-sandman-\S+; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Lax$/)
    expect(answer.headers.get('strict-transport-security')).toBe('max-age=15552000')
    const bare = cookie.replace(/;.*/, '')
    expect((await ask('/v1', { headers: { cookie: bare, ...secure } })).status).toBe(200)
    // One that a neighbour on the same domain could have set is not looked at.
    expect((await ask('/v1', { headers: { cookie: bare.replace('__Host-', ''), ...secure } })).status).toBe(401)
  })

  test('nobody is believed to be a proxy who is not one', async () => {
    const { ask } = open({ tokens: TOKENS })
    const answer = await ask('/login', form({ token: SECRETS.read }, secure))
    expect(answer.headers.getSetCookie()[0]).not.toContain('Secure')
    expect(answer.headers.has('strict-transport-security')).toBe(false)
  })
})
