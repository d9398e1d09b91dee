import { describe, expect, test } from 'vitest'
import { createApp } from '../../src/web/app.ts'
import { HERE } from '../support/here.ts'
import { bearer, FROM_HERE, SECRETS, TOKENS, useFleet, WRONG } from './setup.ts'

const { fleet, open } = useFleet()

describe('with tokens', () => {
  test('whoever has one comes in, as a bearer or as the password of a program that knows no other way', async () => {
    const { ask } = open({ tokens: TOKENS })
    for (const path of ['/', '/v1', '/queues', '/queues/api/queues', '/nowhere']) {
      const refused = await ask(path)
      expect(refused.status).toBe(401)
      expect(refused.headers.get('www-authenticate')).toBe('Bearer realm="Sandman"')
      expect(await refused.json()).toMatchObject({ status: 401, error_type: 'unauthorized', retryable: false })
      const wrong = await ask(path, bearer(WRONG))
      expect(wrong.status).toBe(401)
      expect(wrong.headers.get('www-authenticate')).toBe('Bearer realm="Sandman", error="invalid_token"')
    }
    expect((await ask('/v1', bearer(SECRETS.read))).status).toBe(200)
    const basic = { authorization: `Basic ${btoa(`anybody:${SECRETS.admin}`)}` }
    expect((await ask('/v1', { headers: basic })).status).toBe(200)
    expect((await ask('/nowhere', bearer(SECRETS.read))).status).toBe(404)
  })

  test.each([
    'Bearer',
    'Bearer ',
    'bearer  ',
    `Token ${SECRETS.admin}`,
    `Bearer x ${SECRETS.admin}`,
    'Basic !',
    'Basic',
  ])('an authorization of %j is none', async (authorization) => {
    const { ask } = open({ tokens: TOKENS })
    expect((await ask('/v1', { headers: { authorization } })).status).toBe(401)
  })

  test('a person is led to the login, and back to what was asked for', async () => {
    const { ask } = open({ tokens: TOKENS })
    const person = { headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' } }
    const led = await ask('/queues?a=1&b=2', person)
    expect(led.status).toBe(302)
    expect(led.headers.get('location')).toBe(`/login?next=${encodeURIComponent('/queues?a=1&b=2')}`)
    expect((await ask('/', person)).headers.get('location')).toBe('/login')
    // Who shows a token is a program, and who wants to change something is not led astray.
    expect((await ask('/', { headers: { ...person.headers, ...bearer(WRONG).headers } })).status).toBe(401)
    expect((await ask('/queues/x', { method: 'POST', ...person })).status).toBe(401)
  })

  test('a token in an address is refused with advice, whether it is right or who shows it', async () => {
    const { ask } = open({ tokens: TOKENS })
    for (const path of [
      `/v1?token=${SECRETS.read}`,
      `/${SECRETS.read}`,
      `/v1?${SECRETS.read}`,
      `/v1/${SECRETS.read}/x`,
    ]) {
      const refused = await ask(path, bearer(SECRETS.admin))
      expect(refused.status).toBe(400)
      expect(await refused.json()).toMatchObject({ error_type: 'token_in_address' })
    }
  })
})

describe('without tokens', () => {
  test('this machine may do everything, but no page on the web through its browser', async () => {
    const { ask } = open()
    expect((await ask('/v1')).status).toBe(200)
    expect((await ask('/v1', { headers: { host: 'localhost:3000' } })).status).toBe(200)
    expect((await ask('/v1', { headers: { host: '[::1]:3000' } })).status).toBe(200)
    for (const host of ['evil.example:3000', '127.0.0.1.evil.example', 'localhost.evil.example', '']) {
      const rebound = await ask('/v1', { headers: { host } })
      expect(rebound.status).toBe(403)
      expect(await rebound.json()).toMatchObject({ error_type: 'unknown_host' })
    }
    // No proxy is believed that nobody has spoken of.
    const claimed = { host: 'evil.example', 'x-forwarded-host': 'localhost' }
    expect((await ask('/v1', { headers: claimed })).status).toBe(403)
  })

  test('there is nobody to log in', async () => {
    const { ask } = open()
    expect((await ask('/login?next=/queues')).headers.get('location')).toBe('/queues')
  })
})

describe('what changes something', () => {
  const change = (headers: Record<string, string>) => ({ method: 'PUT', headers })
  const path = '/queues/api/queues/any/pause'

  test('is refused when it comes from another site, token or not', async () => {
    const strangers = [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { origin: 'https://evil.example' },
      { origin: 'null' },
    ]
    for (const headers of strangers) {
      for (const options of [{}, { tokens: TOKENS }, { access: () => 'admin' as const }]) {
        const { ask } = open(options)
        const refused = await ask(path, change({ ...bearer(SECRETS.admin).headers, ...headers }))
        expect(refused.status).toBe(403)
        expect(await refused.json()).toMatchObject({ error_type: 'cross_site' })
      }
    }
  })

  test('is done for a program on this machine, and for a page of ours', async () => {
    const { ask } = open()
    for (const headers of [{}, FROM_HERE, { origin: 'http://127.0.0.1' }])
      expect((await ask(path, change(headers))).status).not.toBe(403)
  })

  test('needs a bearer token, or to be seen to come from here: other credentials are sent by browsers on their own', async () => {
    const { ask } = open({ tokens: TOKENS })
    const basic = { authorization: `Basic ${btoa(`:${SECRETS.admin}`)}` }
    expect((await ask(path, change(bearer(SECRETS.admin).headers))).status).not.toBe(403)
    expect((await ask(path, change(basic))).status).toBe(403)
    expect((await ask(path, change({ ...basic, 'sec-fetch-site': 'none' }))).status).toBe(403)
    expect((await ask(path, change({ ...basic, ...FROM_HERE }))).status).not.toBe(403)
  })
})

test('without tokens only a connection that was made on this machine is from this machine, whatever it says', async () => {
  const app = createApp(fleet())
  const from = async (env: object | undefined, headers: Record<string, string> = {}) =>
    (await app.request('http://127.0.0.1/v1', { headers: { host: 'localhost', ...headers } }, env)).status
  const peer = (remoteAddress: string) => ({ incoming: { socket: { remoteAddress } } })
  expect(await from(HERE)).toBe(200)
  expect(await from(peer('::ffff:127.0.0.1'))).toBe(200)
  expect(await from(peer('192.0.2.2'))).toBe(403)
  expect(await from(HERE, { 'x-forwarded-for': '192.0.2.2' })).toBe(403)
  expect(await from(undefined)).toBe(403)
})

test('a token in an address is told to who has shown one, and to nobody who tries them out', async () => {
  const { ask } = open({ tokens: TOKENS })
  expect((await ask(`/v1?key=${SECRETS.admin}`, bearer(SECRETS.read))).status).toBe(400)
  expect((await ask(`/v1?key=${SECRETS.admin}`)).status).toBe(401)
  expect((await ask(`/healthz?key=${SECRETS.admin}`)).status).toBe(200)
})

describe('mounted in an app with a login of its own', () => {
  const access = async (request: Request) =>
    (({ reader: 'read', boss: 'admin' }) as const)[request.headers.get('x-user') ?? '']
  const as = (user: string, more: Record<string, string> = {}) => ({ headers: { 'x-user': user, ...more } })

  test('that app says who may do what, on whatever host it is', async () => {
    const { ask, events } = open({ access })
    expect((await ask('/v1', as('reader', { host: 'app.example' }))).status).toBe(200)
    expect((await ask('/v1', as('stranger'))).status).toBe(401)
    const put = { method: 'PUT' }
    expect((await ask('/queues/api/x', { ...put, ...as('reader', FROM_HERE) })).status).toBe(403)
    expect((await ask('/queues/api/x', { ...put, ...as('boss', FROM_HERE) })).status).toBe(404)
    expect(
      events.happened.filter(({ name }) => name === 'request.answered').map(({ fields }) => fields.caller),
    ).toEqual(['app', undefined, 'app', 'app'])
  })

  test('its login may be a cookie, so what changes something has to come from here', async () => {
    const { ask } = open({ access })
    const put = { method: 'PUT' }
    expect(await (await ask('/queues/api/x', { ...put, ...as('boss') })).json()).toMatchObject({
      error_type: 'cross_site',
    })
    const program = as('boss', { authorization: 'Bearer of-that-app' })
    expect((await ask('/queues/api/x', { ...put, ...program })).status).toBe(404)
  })

  test('tokens work beside it', async () => {
    const { ask } = open({ access, tokens: TOKENS })
    expect((await ask('/v1', bearer(SECRETS.read))).status).toBe(200)
    expect((await ask('/v1', as('reader'))).status).toBe(200)
    expect((await ask('/v1')).status).toBe(401)
  })
})

test('what is not there is a problem that says so', async () => {
  const { ask } = open()
  const response = await ask('/v1/naps')
  expect(response.status).toBe(404)
  expect(response.headers.get('content-type')).toBe('application/problem+json')
  expect(await response.json()).toMatchObject({
    title: 'Not Found',
    status: 404,
    error_type: 'not_found',
    message: 'There is nothing at GET /v1/naps.',
  })
})
