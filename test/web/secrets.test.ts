import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { Events } from '../../src/events.ts'
import { createLogger, logEvents } from '../../src/logger.ts'
import { form, logIn, SECRETS, TOKENS, useFleet } from './setup.ts'

const { open } = useFleet()

test('no secret is in a log, an error or a page, wherever somebody puts it', async () => {
  const events = new Events()
  const lines = new PassThrough({ encoding: 'utf8' })
  let logged = ''
  lines.on('data', (text: string) => {
    logged += text
  })
  // Without the redactor, which is there for what others write.
  logEvents(events, createLogger({ level: 'trace', fields: {}, redact: (line) => line, destination: lines }))
  const { ask, routes } = open({ tokens: TOKENS, events, rateLimit: 'off', wrongTokens: 'off' }, (all) => {
    all.add('POST', '/broken', 'read', async (c) => {
      await c.req.text()
      throw new Error('a bug')
    })
  })
  const session = await logIn(ask, SECRETS.admin)
  const paths = [...new Set(routes.all.map(({ path }) => path.replaceAll(/:\w+/g, 'some').replace(/\*$/, 'some')))]

  const answers: string[] = []
  const show = async (path: string, init: Parameters<typeof ask>[1] = {}): Promise<void> => {
    const answer = await ask(path, init)
    // A stream has nothing of the request in it.
    const body = answer.headers.get('content-type')?.includes('event-stream')
      ? await answer.body?.cancel()
      : await answer.text()
    const headers = [...answer.headers].filter(([name]) => name !== 'set-cookie')
    answers.push(`${answer.status} ${JSON.stringify(headers)} ${body ?? ''}`)
    if (answer.headers.has('set-cookie'))
      for (const secret of Object.values(SECRETS)) expect(answer.headers.get('set-cookie')).not.toContain(secret)
  }

  for (const secret of Object.values(SECRETS)) {
    const html = { accept: 'text/html' }
    const everywhere = paths.map(async (path) => {
      for (const headers of [
        { authorization: `Bearer ${secret}` },
        { authorization: secret },
        { 'x-api-key': secret },
        { cookie: `sandman=${secret}` },
        { 'x-request-id': `a ${secret}` },
      ]) {
        await show(path, { headers: { ...headers, ...html } })
      }
      await show(path, { headers: { 'x-api-key': secret } })
      await show(`${path}?token=${secret}`, { headers: html })
      await show(`${path}/${encodeURIComponent(secret)}?next=/&${secret}`, { headers: html })
    })
    await Promise.all(everywhere)
    const post = { method: 'POST', headers: { authorization: `Bearer ${secret}` } }
    await show('/broken', { ...post, body: JSON.stringify({ token: secret }) })
    await show('/broken', { ...post, headers: { cookie: session, 'sec-fetch-site': 'same-origin' }, body: secret })
    await show('/login', form({ token: secret }))
    await show('/login', form({ token: `${secret}?`, next: '/' }))
    await show('/login', form({ password: secret }))
    await show('/login', form({ token: secret }, { 'sec-fetch-site': 'cross-site' }))
  }

  await new Promise(setImmediate) // the last lines are still on their way
  expect(answers.length).toBeGreaterThan(100)
  expect(logged).toContain('"event":"request.failed"')
  expect(logged).toContain('"caller":"anna"')
  const [, cookie = ''] = session.split('=')
  const leaks = (text: string) => [...Object.values(SECRETS), cookie].some((secret) => text.includes(secret))
  expect(answers.filter(leaks)).toEqual([])
  expect(logged.split('\n').filter(leaks)).toEqual([])
})
