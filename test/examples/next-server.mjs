import { createServer } from 'node:http'

/** As Next.js does it: a route is loaded from its folder, and each of its functions is given requests of its method. */
const app = new URL('../../examples/nextjs/app/', import.meta.url)
const PREVIEW = 'api/projects/[project]/preview'

/** @type {[RegExp, string][]} */
const routes = [
  [/^\/api\/sandman$/, 'api/sandman/route.ts'],
  [/^\/api\/sandman\/(?<path>.*)$/, 'api/sandman/[...path]/route.ts'],
  [/^\/api\/projects\/(?<project>[^/]+)\/preview$/, `${PREVIEW}/route.ts`],
  [/^\/api\/projects\/(?<project>[^/]+)\/preview\/(?<verb>[^/]+)$/, `${PREVIEW}/[verb]/route.ts`],
]

const server = createServer(async (incoming, outgoing) => {
  const chunks = []
  for await (const chunk of incoming) chunks.push(chunk)
  const { method = 'GET', url = '/', headers } = incoming
  const { pathname } = new URL(url, 'http://next')
  for (const [pattern, file] of routes) {
    const found = pattern.exec(pathname)
    if (!found) continue
    const route = await import(new URL(file, app).href)
    const body = chunks.length > 0 ? { body: Buffer.concat(chunks) } : {}
    const request = new Request(`http://${headers.host}${url}`, { method, headers, ...body })
    const answer = await route[method](request, { params: Promise.resolve(found.groups ?? {}) })
    outgoing.writeHead(answer.status, [...answer.headers].flat())
    return outgoing.end(Buffer.from(await answer.arrayBuffer()))
  }
  outgoing.writeHead(404).end()
})
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`))
