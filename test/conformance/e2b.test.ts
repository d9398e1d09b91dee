import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll } from 'vitest'
import { openE2bBackend } from '../../src/backends/e2b/backend.ts'
import { startWire } from '../../src/conformance/index.ts'
import { isGone } from '../backends/shell/setup.ts'
import { FakeE2b } from '../support/e2b/server.ts'
import { proveBackend } from './setup.ts'

const e2b = await FakeE2b.start()
const wire = await startWire(e2b.url)
afterAll(async () => {
  await wire.close()
  await e2b.stop()
})

/** Remembered, because their sandbox may be gone when they are asked for. */
const sidecars = new Map<string, number>()

async function isSidecarAlive(ref: string): Promise<boolean> {
  const file = path.join(e2b.folderOf(ref), '.sandman', ref, 'sidecar', 'agent')
  const text = await readFile(file, 'utf8').catch(() => '')
  if (text !== '') sidecars.set(ref, Number.parseInt(text, 10))
  const pid = sidecars.get(ref)
  return pid !== undefined && !(await isGone(pid))
}

proveBackend('e2b', {
  open: (fleet) => openE2bBackend({ fleet, ...e2b.connection }),
  claims: {
    pausing: 'memory',
    snapshots: true,
    lease: true,
    labelsAdopted: false,
    memoryLimit: false,
    sidecar: { isAlive: isSidecarAlive },
  },
  wire: {
    open: (fleet) => openE2bBackend({ fleet, ...e2b.connection, apiUrl: wire.url, sandboxUrl: wire.url }),
    wire,
  },
})
