import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import type { Instance } from '../../../src/backends/docker/instance.ts'
import { ownStatus } from '../../../src/backends/docker/status.ts'
import { engineSocket } from '../../support/docker/offer-engine.ts'
import { CALL, engine, gated, IDLING, newId, onEngine, setup, sh } from './setup.ts'

const LIMITS = { memoryBytesMax: 24 << 20 }
const EATING = 'a=xxxxxxxx; while :; do a=$a$a; done'
const killed = { is: 'terminated', exitCode: 137, signal: null }

onEngine(() => {
  test('an agent that is killed for its memory says so, while its sidecar lives (incident C)', async () => {
    const bench = await setup()
    const command = gated(`echo hungry; ${EATING}`)
    const target = await bench.create({ agent: { command, sidecar: { command: IDLING } }, limits: LIMITS })
    const agent = { ...target, key: undefined }
    await bench.go(target)
    await expect.poll(() => bench.backend.agentStatus(agent, CALL)).toEqual({ ...killed, oomKilled: true })
    expect(await bench.backend.look(target.ref, CALL)).toMatchObject({
      is: 'lost',
      why: expect.stringMatching(/has ended with exit code 137.*, but its sidecar still runs/),
    })
    expect((await bench.hear(agent)).toString()).toBe('hungry\n')
    expect((await bench.containers()).map(({ State }) => State).toSorted()).toEqual(['exited', 'running'])
  })

  test('an agent was killed for its memory also when its engine heard of the end first, and wrote down that it was not', async () => {
    const bench = await setup()
    const late = await bench.open({ connection: await heardLate() })
    const target = await bench.create({ agent: { command: gated(EATING) }, limits: LIMITS })
    await bench.go(target)
    await expect
      .poll(() => late.agentStatus({ ...target, key: undefined }, CALL))
      .toEqual({ ...killed, oomKilled: true })
  })

  test('an agent that outlives a child which was killed for its memory was not', async () => {
    const bench = await setup()
    const command = gated(`sh -c '${EATING}'; echo survived $?; exit 0`)
    const target = await bench.create({ agent: { command }, limits: LIMITS })
    const agent = { ...target, key: undefined }
    await bench.go(target)
    expect((await bench.hear(agent)).toString()).toMatch(/survived 137/)
    expect(await bench.backend.agentStatus(agent, CALL)).toEqual({
      is: 'terminated',
      exitCode: 0,
      signal: null,
      oomKilled: false,
    })
    expect((await bench.inspect(target.ref)).State.OOMKilled).toBe(true) // as the engine says it of the container
  })

  test('an agent that was started by key and killed for its memory says so, and one that was merely killed does not', async () => {
    const bench = await setup()
    const target = await bench.create({ limits: LIMITS })
    const start = async (script: string) => {
      const key = newId('exe')
      await bench.backend.startAgent(target, { key, command: sh(script) }, CALL)
      return { ...target, key }
    }
    const merely = await start('kill -9 $$')
    await expect.poll(() => bench.backend.agentStatus(merely, CALL)).toEqual({ ...killed, oomKilled: undefined })
    const hungry = await start(EATING)
    await expect.poll(() => bench.backend.agentStatus(hungry, CALL)).toEqual({ ...killed, oomKilled: true })
    await bench.awake(target.ref)
  })

  test('one that is killed from outside was killed, and nobody knows for what', async () => {
    const bench = await setup()
    const target = await bench.create({ agent: { command: IDLING } })
    await engine('POST', `/containers/${target.ref}/kill`)
    const agent = { ...target, key: undefined }
    await expect.poll(() => bench.backend.agentStatus(agent, CALL)).toEqual({ ...killed, oomKilled: undefined })
  })
})

/** The engine of this run, as it shows a container of which it has heard the end first, and then what for. */
async function heardLate() {
  const socketPath = await engineSocket()
  const server = http.createServer(({ method, url, headers }, response) => {
    const asked = http.request({ socketPath, method, path: url, headers, agent: false }, async (answer) => {
      response.writeHead(answer.statusCode as number, { 'content-type': answer.headers['content-type'] })
      if (!/\/containers\/[^/]+\/json$/.test(url as string)) return void answer.pipe(response)
      response.end((await text(answer)).replace('"OOMKilled":true', '"OOMKilled":false'))
    })
    asked.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { host: '127.0.0.1', port: (server.address() as AddressInfo).port, protocol: 'http' } as const
}

/** Docker says of a container that something in it was killed; Podman says of one that was killed for its memory that it was not. */
test.each([
  [137, true, true],
  [137, false, undefined],
  [0, true, false],
  [0, false, false],
  [1, true, undefined],
  [1, false, false],
])(
  'exit code %i of a container of which the engine says %s: killed for its memory is %s',
  (ExitCode, OOMKilled, expected) => {
    const State = { Status: 'exited', ExitCode, OOMKilled, StartedAt: '' }
    const agent = { state: 'exited', incarnation: 'i', name: { base: 'r' }, labels: {}, inspected: { State } }
    const instance = { ref: 'r', isAdopted: false, agent, sidecar: undefined, asleep: undefined } as unknown as Instance
    const status = ownStatus(instance, { ref: 'r', incarnation: 'i', key: undefined })
    expect(status).toEqual({ is: 'terminated', exitCode: ExitCode, signal: null, oomKilled: expected })
  },
)
