import path from 'node:path'
import { expect, test } from 'vitest'
import { openLocalBackend } from '../../src/backends/local/backend.ts'
import { createWorld, loseProcesses } from '../support/world.ts'
import { crashEverywhere } from './every-crash.ts'

test('a worker that is killed after any step of any job costs nothing but time (Postgres, local backend)', async ({
  onTestFinished,
}) => {
  const world = await createWorld('postgres')
  onTestFinished(() => world.end())
  const backend = openLocalBackend({ folder: path.join(world.dataFolder, 'sandboxes'), fleet: world.place.fleet })
  const call = { signal: new AbortController().signal }
  const crashes = await crashEverywhere(world, {
    made: { backend: 'local', wake: { commands: ['echo hello > greeting'] } },
    lose: (sandbox) => loseProcesses(world, sandbox),
    async truth(sandboxId) {
      const found = await backend.find(sandboxId, call)
      return Promise.all(found.map(async ({ ref }) => ({ ref, ...(await backend.look(ref, call)) })))
    },
  })
  console.log(`${crashes.length} crashes`)
  expect(crashes.length).toBeGreaterThan(35)
}, 240_000)
