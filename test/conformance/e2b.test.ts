import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { Sandbox } from 'e2b'
import { afterAll } from 'vitest'
import { openE2bBackend } from '../../src/backends/e2b/backend.ts'
import { type Claims, startWire } from '../../src/conformance/index.ts'
import { isGone } from '../backends/shell/setup.ts'
import { FakeE2b } from '../support/e2b/server.ts'
import { proveBackend } from './setup.ts'

const claimsWith = (isAlive: (ref: string) => Promise<boolean>): Claims => ({
  pausing: 'memory',
  snapshots: true,
  lease: true,
  labelsAdopted: false,
  memoryLimit: false,
  sidecar: { isAlive },
})

const { E2B_API_KEY: apiKey, SANDMAN_TEST_LIVE: isLive } = process.env

if (apiKey && isLive === '1') proveAtE2b(apiKey)
else await proveAtFake()

/** Costs money, and what a case has made is ended by it. Faults need a wire, which there is none to here. */
function proveAtE2b(apiKey: string): void {
  const isSidecarAlive = async (ref: string) => {
    if (!(await Sandbox.getInfo(ref, { apiKey }).catch(() => undefined))) return false
    const sandbox = await Sandbox.connect(ref, { apiKey })
    const { stdout } = await sandbox.commands.run(
      'cat /proc/[0-9]*/environ 2>/dev/null | tr "\\0" "\\n" | grep -c SANDMAN_PART=sidecar || :',
    )
    return Number(stdout) > 0
  }
  proveBackend('e2b, the real one', {
    open: (fleet) => openE2bBackend({ fleet, apiKey }),
    claims: claimsWith(isSidecarAlive),
  })
}

async function proveAtFake(): Promise<void> {
  const e2b = await FakeE2b.start()
  const wire = await startWire(e2b.url)
  afterAll(async () => {
    await wire.close()
    await e2b.stop()
  })
  /** Remembered, because their sandbox may be gone when they are asked for. */
  const sidecars = new Map<string, number>()
  const isSidecarAlive = async (ref: string) => {
    const file = path.join(e2b.folderOf(ref), '.sandman', ref, 'sidecar', 'agent')
    const text = await readFile(file, 'utf8').catch(() => '')
    if (text !== '') sidecars.set(ref, Number.parseInt(text, 10))
    const pid = sidecars.get(ref)
    return pid !== undefined && !(await isGone(pid))
  }
  const through = { apiUrl: wire.url, sandboxUrl: wire.url }
  proveBackend('e2b', {
    open: (fleet) => openE2bBackend({ fleet, ...e2b.connection }),
    damage: async (checkpointRef) => {
      const headers = { 'X-API-KEY': e2b.apiKey }
      await fetch(`${e2b.url}/templates/${encodeURIComponent(checkpointRef)}`, { method: 'DELETE', headers })
    },
    claims: claimsWith(isSidecarAlive),
    wire: { wire, open: (fleet) => openE2bBackend({ fleet, ...e2b.connection, ...through }) },
  })
}
