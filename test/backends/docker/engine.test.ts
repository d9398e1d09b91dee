import http, { type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { Engine } from '../../../src/backends/docker/engine.ts'

test('a request looks at no connection but its own, however many outputs are followed', async () => {
  const endless: ServerResponse[] = []
  const server = http.createServer(({ url }, response) => {
    if (url === '/info') response.end('{}')
    else endless.push(response.writeHead(200)) && response.write('.')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  const engine = await Engine.open({ host: '127.0.0.1', port, protocol: 'http' })
  const call = { signal: AbortSignal.timeout(30_000) }
  const followed = await engine.stream({ method: 'GET', path: '/logs' }, call)
  let looks = 0
  Object.assign(followed.socket, { [inspect.custom]: () => `looked at ${++looks} times` })
  expect(await engine.json({ method: 'GET', path: '/info' }, call)).toEqual({})
  expect(looks).toBe(0)
  followed.destroy()
})
