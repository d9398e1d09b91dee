// Printed from docs/writing-a-backend.md.
import { openBoxesBackend } from '../../../examples/boxes/backend.ts'
declare const url: string
declare function isSidecarAlive(ref: string): Promise<boolean>
import { after, test } from 'node:test'
import { conformance, startWire } from 'sandman/conformance'

const wire = await startWire(url) // of the provider; or unix:/path/of/a/socket
const { cases, close } = conformance({
  open: async (fleet) => openBoxesBackend({ url, fleet }),
  wire: { wire, open: async (fleet) => openBoxesBackend({ url: wire.url, fleet }) },
  claims: {
    ...{ pausing: 'none', snapshots: false, lease: false, labelsAdopted: false, memoryLimit: false },
    sidecar: { isAlive: isSidecarAlive }, // or 'none'
  },
})
for (const { about, name, run } of cases) test(`${about}: ${name}`, { timeout: 120_000 }, run)
after(async () => {
  await close()
  await wire.close()
})
