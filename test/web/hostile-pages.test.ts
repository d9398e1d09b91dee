import { expect, test } from 'vitest'
import { BODY_BYTES_MAX } from '../../src/web/body-limit.ts'
import { useFleet } from './setup.ts'

/** What the API is thrown at is in hostile.test.ts; this is everything else that anybody can ask for: pages, forms, streams, queues. */
const { fleet, open } = useFleet()

const STRANGE = [
  "' or 1=1; drop table sandman.sandboxes; --",
  '<script>alert(1)</script>',
  '../../etc/passwd',
  '%00',
  '%0d%0aset-cookie: a=b',
  '%ff',
  '%E0%A4%A',
  '__proto__',
  '\u202e\u0000\ud800',
  `sbx_${'f'.repeat(26)}`,
  'x'.repeat(8_000),
]
const QUERIES = [
  '',
  '?state=%00',
  '?metadata=__proto__%3D1',
  '?id=%27',
  '?cursor=%ff',
  '?op=%0a',
  '?sandboxes=%00&execution=%27',
  '?q=%00',
]
const BODIES: { body?: string; type?: string }[] = [
  {},
  { body: 'command=%00&backend=%27%3B--&confirmed=yes', type: 'application/x-www-form-urlencoded' },
  { body: 'a=b&'.repeat(2_000), type: 'application/x-www-form-urlencoded' },
  { body: '{"a":', type: 'application/json' },
  { body: '--x\r\nnot a part', type: 'multipart/form-data; boundary=x' },
  { body: '\u0000\ufffd', type: 'text/plain' },
]

test('whatever is thrown at a page, a form, a stream or a queue, the answer is no fault of ours, and nothing is asked for', async () => {
  const { ask, routes, events } = open()
  const others = routes.all.filter(({ path }) => !path.startsWith('/v1'))
  expect(others.length).toBeGreaterThan(20)
  const faults: string[] = []
  const send = async (method: string, path: string, init: RequestInit = {}) => {
    const headers = {
      accept: 'text/html',
      'sec-fetch-site': 'same-origin',
      ...(init.headers as Record<string, string>),
    }
    const answer = await ask(path, { ...init, method, headers })
    await answer.body?.cancel()
    if (answer.status >= 500)
      faults.push(`${method} ${path.slice(0, 80)} ${init.body ?? ''} is answered with ${answer.status}`)
  }
  for (const { method, path } of others) {
    for (const strange of STRANGE) {
      const part = strange.startsWith('%') ? strange : encodeURIComponent(strange.toWellFormed())
      const there = path.replace(/:\w+|\*$/, part)
      if (method === 'GET') for (const query of QUERIES) await send(method, `${there}${query}`)
      else
        for (const { body, type } of BODIES)
          await send(method, there, body === undefined ? {} : { body, headers: { 'content-type': type as string } })
      if (there === path) break
    }
    if (method !== 'GET') await send(method, path, { body: 'x'.repeat(BODY_BYTES_MAX + 1) })
  }
  expect(faults).toEqual([])
  const failed = events.happened.filter(({ name }) => name === 'request.failed')
  expect(failed.map(({ fields }) => fields.error)).toEqual([])
  // Nothing can be asked of a sandbox that there is not.
  expect((await fleet().list()).items).toEqual([])
})
