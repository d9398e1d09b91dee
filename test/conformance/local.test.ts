import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll } from 'vitest'
import { openLocalBackend } from '../../src/backends/local/backend.ts'
import { canLimitMemory } from '../../src/backends/local/cgroups.ts'
import { readInstance, readStarted } from '../../src/backends/local/instance.ts'
import { isGone } from '../backends/local/setup.ts'
import { shareCompiled } from '../support/compiled.ts'
import { proveBackend } from './setup.ts'

const folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-conformance-'))
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Remembered, because their instance may be gone when they are asked for. */
const sidecars = new Map<string, number>()
const fleets = new Set<string>()

async function isSidecarAlive(ref: string): Promise<boolean> {
  for (const fleet of sidecars.has(ref) ? [] : fleets) {
    const instance = await readInstance(ref, path.join(folder, fleet, 'instances', ref))
    const pid = instance && (await readStarted(instance))?.sidecar?.pid
    if (pid !== undefined) sidecars.set(ref, pid)
  }
  const pid = sidecars.get(ref)
  return pid !== undefined && !(await isGone(pid))
}

// Those that differ without cgroups are in test/backends/local.
proveBackend('local', {
  open: async (fleet) => {
    if (!fleets.has(fleet)) await shareCompiled(folder, fleet)
    fleets.add(fleet)
    return openLocalBackend({ folder, fleet })
  },
  damage: (checkpointRef, fleet) => rm(path.join(folder, fleet, 'checkpoints', checkpointRef, 'workspace', 'file')),
  claims: {
    pausing: 'memory',
    snapshots: true,
    lease: false,
    labelsAdopted: true,
    memoryLimit: await canLimitMemory(),
    sidecar: { isAlive: isSidecarAlive },
  },
})
