import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll } from 'vitest'
import { openAgentuityBackend } from '../../src/backends/agentuity/backend.ts'
import { type Claims, startWire } from '../../src/conformance/index.ts'
import { isGone } from '../backends/shell/setup.ts'
import { FakeAgentuity } from '../support/agentuity/server.ts'
import { proveBackend } from './setup.ts'

const claimsWith = (sidecar: Claims['sidecar']): Claims => ({
  pausing: 'memory',
  snapshots: true,
  lease: false,
  labelsAdopted: false,
  memoryLimit: 'untold',
  sidecar,
})

const { AGENTUITY_SDK_KEY: apiKey, SANDMAN_TEST_LIVE: isLive } = process.env

if (apiKey && isLive === '1') proveAtAgentuity(apiKey)
else await proveAtFake()

/** Costs money, and what a case has made is ended by it. Faults need a wire, which there is none to here. */
function proveAtAgentuity(apiKey: string): void {
  const asked = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c SANDMAN_PART=sidecar || :"
  const isAlive = async (ref: string) => {
    const { APIClient, createMinimalLogger, getEnv, getServiceUrls, jobCreate, sandboxGet } = await import(
      '@agentuity/server'
    )
    const { sandbox: url } = getServiceUrls(getEnv('AGENTUITY_REGION') ?? 'usc')
    const client = new APIClient(url, createMinimalLogger(), apiKey)
    if (!(await sandboxGet(client, { sandboxId: ref }).catch(() => undefined))) return false
    const { stdoutStreamUrl } = await jobCreate(client, { sandboxId: ref, options: { command: ['sh', '-c', asked] } })
    return Number(await (await fetch(stdoutStreamUrl as string)).text()) > 0
  }
  proveBackend('agentuity, the real one', {
    open: (fleet) => openAgentuityBackend({ fleet, apiKey }),
    claims: claimsWith({ isAlive }),
  })
}

async function proveAtFake(): Promise<void> {
  const agentuity = await FakeAgentuity.start()
  const wire = await startWire(agentuity.url)
  afterAll(async () => {
    await wire.close()
    await agentuity.stop()
  })
  /** Remembered, because their sandbox may be gone when they are asked for. */
  const sidecars = new Map<string, number>()
  const isAlive = async (ref: string) => {
    const file = path.join(agentuity.folderOf(ref), '.sandman', ref, 'sidecar', 'agent')
    const text = await readFile(file, 'utf8').catch(() => '')
    if (text !== '') sidecars.set(ref, Number.parseInt(text, 10))
    const pid = sidecars.get(ref)
    return pid !== undefined && !(await isGone(pid))
  }
  proveBackend('agentuity', {
    open: (fleet) => openAgentuityBackend({ fleet, ...agentuity.connection }),
    damage: (checkpointRef) => agentuity.cloud.deleteSnapshot(checkpointRef),
    claims: claimsWith({ isAlive }),
    wire: { wire, open: (fleet) => openAgentuityBackend({ fleet, ...agentuity.connection, url: wire.url }) },
  })
}
