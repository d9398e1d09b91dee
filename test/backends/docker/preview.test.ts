import { expect, test } from 'vitest'
import { agentConfig } from '../../../src/backends/docker/recipe.ts'
import { CALL, engine, onEngine, setup, sh, wired } from './setup.ts'

const SERVING = 'mkdir -p /www; echo hello > /www/index.html; exec httpd -f -h /www -p 127.0.0.1:'

onEngine(() => {
  test('in the network of the machine, a port is reached there', async () => {
    const bench = await setup({ network: 'host' })
    const port = 20_000 + Math.floor(Math.random() * 40_000)
    const target = await bench.create({ agent: { command: sh(`${SERVING}${port}`) }, wake: { previewPort: port } })
    const url = await bench.backend.previewUrl(target.ref, port, CALL)
    expect(url).toBe(`http://127.0.0.1:${port}`)
    await expect
      .poll(() =>
        fetch(url ?? '').then(
          (answer) => answer.text(),
          () => '',
        ),
      )
      .toBe('hello\n')
  })

  test('it is where the engine has published it, else where the network has it, else nowhere', async () => {
    const bench = await setup()
    const { wire, backend } = await wired(bench)
    const { ref } = await bench.create({ wake: { previewPort: 3_000 } })
    expect(await backend.previewUrl(ref, 3_000, CALL)).toBeUndefined()
    const inspected = await engine<object>('GET', `/containers/${ref}/json`)
    const urlIn = (NetworkSettings: object) => {
      const body = JSON.stringify({ ...inspected, NetworkSettings })
      wire.fail({ kind: 'answer', status: 200, type: 'application/json', body }, ({ path }) =>
        /\/containers\/\w{64}\/json/.test(path),
      )
      return backend.previewUrl(ref, 3_000, CALL)
    }
    const Ports = { '3000/tcp': [{ HostIp: '127.0.0.1', HostPort: '49153' }] }
    const Networks = { mine: { IPAddress: '172.20.0.2' } }
    expect(await urlIn({ IPAddress: '172.17.0.2', Ports })).toBe('http://127.0.0.1:49153')
    expect(await urlIn({ IPAddress: '172.17.0.2', Ports: { '3000/tcp': null } })).toBe('http://172.17.0.2:3000')
    expect(await urlIn({ IPAddress: '', Networks })).toBe('http://172.20.0.2:3000')
  })
})

test('a port that is to be seen is published to this machine only, in networks in which that can be', () => {
  const published = (network: string | undefined) =>
    (agentConfig({ wake: { previewPort: 80 } }, { network, logs: [] }) as { HostConfig: object }).HostConfig
  const PortBindings = { '80/tcp': [{ HostIp: '127.0.0.1', HostPort: '' }] }
  for (const network of [undefined, 'bridge', 'mine']) expect(published(network)).toMatchObject({ PortBindings })
  for (const network of ['none', 'host', 'container:x']) expect(published(network)).not.toHaveProperty('PortBindings')
})
