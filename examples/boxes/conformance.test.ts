import { after, test } from 'node:test'
import { conformance, startWire } from 'sandman/conformance'
import { openBoxesBackend } from './backend.ts'
import { type Box, processesOf, startBoxes } from './service.ts'

/** Pages of two, so that no list fits on one. */
const boxes = await startBoxes({ pageSize: 2 })
const wire = await startWire(boxes.url)

/** Remembered, because their box may be gone when they are asked for. */
const known = new Map<string, Box>()

/** Asked of the provider, and of the machine: what the backend itself says is what is being tried. */
async function isSidecarAlive(ref: string): Promise<boolean> {
  const answer = await fetch(`${boxes.url}/boxes/${ref}`)
  if (answer.ok) known.set(ref, (await answer.json()) as Box)
  const box = known.get(ref)
  return box !== undefined && (await processesOf(box)).some(({ environ }) => environ.includes('SANDMAN_PART=sidecar'))
}

const { cases, close } = conformance({
  open: async (fleet) => openBoxesBackend({ url: boxes.url, fleet }),
  wire: { wire, open: async (fleet) => openBoxesBackend({ url: wire.url, fleet }) },
  claims: {
    pausing: 'none',
    snapshots: false,
    lease: false,
    labelsAdopted: false,
    memoryLimit: false,
    sidecar: { isAlive: isSidecarAlive },
  },
})

for (const { about, name, run } of cases) test(`${about}: ${name}`, { timeout: 120_000 }, run)

after(async () => {
  await close()
  await wire.close()
  await boxes.stop()
})
