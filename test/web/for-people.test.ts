import { expect, test } from 'vitest'
import { bearer, form, logIn, SECRETS, TOKENS, useFleet } from './setup.ts'

const { open, fleet } = useFleet()
const BROWSER = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }
const SANDBOX = `sbx_${'0'.repeat(26)}`

test.each([
  ['/nope', 404, 'There is nothing at GET /nope.'],
  ['/nope/%3Cimg%20src=x%3E', 404, '&lt;img src=x&gt;'],
  ['/sandboxes/new', 403, 'This needs a token with the scope operate; yours has read.'],
  [`/sandboxes/${SANDBOX}/destroy`, 403, 'This needs a token with the scope operate; yours has read.'],
])('a person who may not see %s, or where nothing is, is told so by a page: %i', async (path, status, message) => {
  const { ask } = open({ tokens: TOKENS })
  const cookie = await logIn(ask, SECRETS.read)
  const page = await ask(path, { headers: { cookie, ...BROWSER } })
  expect([page.status, page.headers.get('content-type')]).toEqual([status, 'text/html; charset=UTF-8'])
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
  expect(page.headers.get('x-request-id')).not.toBeNull()
  const text = await page.text()
  expect(text).toContain(message)
  expect(text).toContain('<nav aria-label="Main">')
  expect(text).toContain('rel="icon"') // or a browser asks for one that is not there
  expect(text).not.toContain('<img')
  // A program is told in its own words.
  const problem = await ask(path, bearer(SECRETS.read))
  expect([problem.status, problem.headers.get('content-type')]).toEqual([status, 'application/problem+json'])
})

test('the API answers a browser as it answers any program', async () => {
  const { ask } = open({ tokens: TOKENS })
  const cookie = await logIn(ask, SECRETS.read)
  for (const path of ['/v1/nope', `/v1/sandboxes/${SANDBOX}`]) {
    const answer = await ask(path, { headers: { cookie, ...BROWSER } })
    expect([answer.status, answer.headers.get('content-type')]).toEqual([404, 'application/problem+json'])
  }
})

test('a stranger is not told by a page which fleet this is', async () => {
  const { ask } = open({ tokens: TOKENS })
  const { headers } = bearer('wrong-wrong-wrong-wrong')
  const answer = await ask('/nope', { headers: { ...headers, ...BROWSER } })
  expect(answer.status).toBe(401)
  expect(await answer.text()).not.toContain(fleet().name)
})

test('a state that there is not is refused, and not left out of the search', async () => {
  const { ask } = open({})
  const page = await ask('/sandboxes?state=bogus', { headers: BROWSER })
  expect(page.status).toBe(422)
  expect(await page.text()).toMatch(/Not found like this\..*state/)
  expect((await ask('/sandboxes?state=running')).status).toBe(200)
  expect((await ask('/sandboxes?state=')).status).toBe(200)
})

test('a command of nothing is not run', async () => {
  const { ask } = open({})
  for (const command of ['', '  ']) {
    const page = await ask(`/sandboxes/${SANDBOX}/executions`, form({ command }))
    expect(page.status).toBe(422)
    expect(await page.text()).toContain('command: there is nothing to run.')
  }
  expect((await ask(`/sandboxes/${SANDBOX}/executions`, form({ command: 'date' }))).status).toBe(404)
})
