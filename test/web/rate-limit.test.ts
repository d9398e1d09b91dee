import { describe, expect, test } from 'vitest'
import { buildApp } from '../../src/web/app.ts'
import { Buckets, Lately } from '../../src/web/rate-limit.ts'
import { bearer, form, logIn, SECRETS, TOKENS, useFleet, WRONG } from './setup.ts'

const { fleet, open } = useFleet()

/** Time that passes when a test says so. */
function clock() {
  let ms = 1_000_000
  return { nowMs: () => ms, pass: (by: number) => (ms += by) }
}

describe('a bucket', () => {
  test('holds what may be asked at once, and fills evenly', () => {
    const { nowMs, pass } = clock()
    const buckets = new Buckets({ count: 10, perMs: 1_000 }, { nowMs })
    for (let left = 9; left >= 0; left--)
      expect(buckets.take('ann')).toMatchObject({ isAllowed: true, limit: 10, remaining: left })
    expect(buckets.take('ann')).toEqual({ isAllowed: false, limit: 10, remaining: 0, waitMs: 100 })
    expect(buckets.take('bob').isAllowed).toBe(true)
    pass(99)
    expect(buckets.take('ann').isAllowed).toBe(false)
    pass(1)
    expect(buckets.look('ann').isAllowed).toBe(true)
    expect(buckets.take('ann').isAllowed).toBe(true)
    expect(buckets.take('ann').isAllowed).toBe(false)
    pass(3_600_000)
    expect(buckets.take('ann')).toMatchObject({ isAllowed: true, remaining: 9 })
  })

  test('is not filled by a clock that goes back', () => {
    const { nowMs, pass } = clock()
    const buckets = new Buckets({ count: 1, perMs: 1_000 }, { nowMs })
    buckets.take('ann')
    pass(-5_000)
    expect(buckets.take('ann').isAllowed).toBe(false)
  })

  test('is forgotten when more come than are remembered: the one not seen for longest first', () => {
    const { nowMs } = clock()
    const buckets = new Buckets({ count: 1, perMs: 1_000 }, { nowMs, max: 3 })
    for (const caller of ['ann', 'bob', 'cid', 'ann', 'dan']) buckets.take(caller)
    expect(buckets.size).toBe(3)
    expect(['ann', 'bob', 'cid', 'dan'].map((caller) => buckets.look(caller).isAllowed)).toEqual([
      false,
      true,
      false,
      false,
    ])
    for (let i = 0; i < 1_000; i++) buckets.take(`caller ${i}`)
    expect(buckets.size).toBe(3)
    const lately = new Lately(2)
    for (const what of ['a', 'b', 'a', 'c']) lately.add(what)
    expect(['a', 'b', 'c'].map((what) => lately.has(what))).toEqual([true, false, true])
  })
})

describe('a token', () => {
  test('may ask so often, however it comes, and is then told when to come back; others may go on', async () => {
    const { nowMs, pass } = clock()
    const { ask } = open({ tokens: TOKENS, rateLimit: { count: 3, perMs: 60_000 }, nowMs })
    const cookie = await logIn(ask, SECRETS.read)
    const first = await ask('/v1', bearer(SECRETS.read))
    expect(first.status).toBe(200)
    expect([...first.headers].filter(([name]) => name.startsWith('ratelimit-'))).toEqual([
      ['ratelimit-limit', '3'],
      ['ratelimit-remaining', '2'],
      ['ratelimit-reset', '0'],
    ])
    expect((await ask('/v1', { headers: { cookie } })).status).toBe(200)
    // What is not there, and what is not allowed, costs as much.
    expect((await ask('/nowhere', bearer(SECRETS.read))).status).toBe(404)
    for (const headers of [bearer(SECRETS.read).headers, { cookie }]) {
      const refused = await ask('/v1', { headers })
      expect(refused.status).toBe(429)
      expect(refused.headers.get('retry-after')).toBe('20')
      expect(refused.headers.get('ratelimit-remaining')).toBe('0')
      expect(refused.headers.get('ratelimit-reset')).toBe('20')
      expect(await refused.json()).toMatchObject({ status: 429, error_type: 'too_many_requests', retryable: true })
    }
    expect((await ask('/v1', bearer(SECRETS.operate))).status).toBe(200)
    expect((await ask('/healthz')).status).toBe(200)
    pass(20_000)
    expect((await ask('/v1', bearer(SECRETS.read))).status).toBe(200)
  })

  test('is never told to wait when that is left to somebody else, nor is this machine', async () => {
    for (const options of [{ tokens: TOKENS, rateLimit: 'off' as const }, { rateLimit: { count: 1, perMs: 60_000 } }]) {
      const { ask } = open(options)
      for (let i = 0; i < 3; i++) {
        const answer = await ask('/v1', bearer(SECRETS.read))
        expect(answer.status).toBe(200)
        expect(answer.headers.has('ratelimit-limit')).toBe(false)
      }
    }
  })
})

describe('whoever is wrong about a token', () => {
  const from = (address: string) => ({ 'x-forwarded-for': address })
  const guess = (address: string, secret = WRONG) => ({ headers: { ...bearer(secret).headers, ...from(address) } })

  test('may be so twenty times, and then nothing is judged that comes from that address, in any way', async () => {
    const { nowMs, pass } = clock()
    const { ask } = open({ tokens: TOKENS, proxies: 1, nowMs })
    for (let i = 0; i < 10; i++) expect((await ask('/v1', guess('192.0.2.1'))).status).toBe(401)
    const login = (secret: string) =>
      ask('/login', form({ token: secret }, { 'sec-fetch-site': 'same-origin', ...from('192.0.2.1') }))
    for (let i = 0; i < 10; i++) expect((await login(WRONG)).status).toBe(401)
    const refused = await ask('/v1', guess('192.0.2.1'))
    expect(refused.status).toBe(429)
    expect(refused.headers.get('retry-after')).toBe('3')
    // Also not the right one: who guesses must not be told.
    expect((await ask('/v1', guess('192.0.2.1', SECRETS.read))).status).toBe(429)
    const page = await login(SECRETS.read)
    expect(page.status).toBe(429)
    expect(page.headers.getSetCookie()).toEqual([])
    expect(await page.text()).toContain('Too many wrong tokens')
    expect((await ask('/v1', guess('192.0.2.2', SECRETS.read))).status).toBe(200)
    pass(3_000)
    expect((await ask('/v1', guess('192.0.2.1', SECRETS.read))).status).toBe(200)
  })

  test('does not lock out who came from the same address with a right one before', async () => {
    const { ask } = open({ tokens: TOKENS, proxies: 1, nowMs: clock().nowMs })
    expect((await ask('/v1', guess('192.0.2.1', SECRETS.read))).status).toBe(200)
    for (let i = 0; i < 20; i++) await ask('/v1', guess('192.0.2.1'))
    expect((await ask('/v1', guess('192.0.2.1', SECRETS.read))).status).toBe(200)
    expect((await ask('/v1', guess('192.0.2.1', SECRETS.operate))).status).toBe(429)
  })

  test('is known by the address that our own proxy saw, by its network if it has many, and not by what it claims', async () => {
    const { ask } = open({ tokens: TOKENS, proxies: 1, nowMs: clock().nowMs })
    for (let i = 0; i < 20; i++) await ask('/v1', guess(`10.0.0.${i}, 2001:db8:0:1::${i}`))
    expect((await ask('/v1', guess('2001:db8:0:1:ffff::1'))).status).toBe(429)
    expect((await ask('/v1', guess('10.0.0.1'))).status).toBe(401)
    expect((await ask('/v1', guess('2001:db8:0:2::1'))).status).toBe(401)
    for (let i = 0; i < 20; i++) await ask('/v1', guess('::ffff:192.0.2.9'))
    expect((await ask('/v1', guess('192.0.2.9'))).status).toBe(429)
  })

  test('is counted whatever else is limited, and where nobody can be told from another, a right token still comes in', async () => {
    const { ask } = open({ tokens: TOKENS, rateLimit: 'off', nowMs: clock().nowMs })
    for (let i = 0; i < 20; i++) expect((await ask('/v1', bearer(WRONG))).status).toBe(401)
    expect((await ask('/v1', bearer(WRONG))).status).toBe(429)
    const { app } = buildApp(fleet(), { tokens: TOKENS, nowMs: clock().nowMs })
    const withoutSocket = (secret: string) => app.request('http://app.example/v1', bearer(secret))
    for (let i = 0; i < 20; i++) expect((await withoutSocket(WRONG)).status).toBe(401)
    expect((await withoutSocket(WRONG)).status).toBe(429)
    expect((await withoutSocket(SECRETS.read)).status).toBe(200)
  })

  test('is not who has shown none', async () => {
    const { ask } = open({ tokens: TOKENS, nowMs: clock().nowMs })
    for (let i = 0; i < 30; i++) expect((await ask('/v1')).status).toBe(401)
    expect((await ask('/v1', bearer(SECRETS.read))).status).toBe(200)
  })
})
