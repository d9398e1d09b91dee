import { afterAll } from 'vitest'
import { openBoxesBackend } from '../../examples/boxes/backend.ts'
import { type Box, processesOf, startBoxes } from '../../examples/boxes/service.ts'
import { startWire } from '../../src/conformance/index.ts'
import { proveBackend } from './setup.ts'

const boxes = await startBoxes({ pageSize: 2 })
const wire = await startWire(boxes.url)
afterAll(async () => {
  await wire.close()
  await boxes.stop()
})

/** Remembered, because their box may be gone when they are asked for. */
const known = new Map<string, Box>()

/** The backend of docs/writing-a-backend.md. */
proveBackend('the example', {
  open: async (fleet) => openBoxesBackend({ url: boxes.url, fleet }),
  wire: { wire, open: async (fleet) => openBoxesBackend({ url: wire.url, fleet }) },
  claims: {
    pausing: 'none',
    snapshots: false,
    lease: false,
    labelsAdopted: false,
    memoryLimit: false,
    sidecar: {
      async isAlive(ref) {
        const answer = await fetch(`${boxes.url}/boxes/${ref}`)
        if (answer.ok) known.set(ref, (await answer.json()) as Box)
        const box = known.get(ref)
        return (
          box !== undefined && (await processesOf(box)).some(({ environ }) => environ.includes('SANDMAN_PART=sidecar'))
        )
      },
    },
  },
})
