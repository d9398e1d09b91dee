import { expect, test } from 'vitest'
import { createWorld } from '../support/world.ts'
import { crashEverywhere } from './every-crash.ts'

test('a worker that is killed after any step of any job costs nothing but time (Redis, scriptable provider)', async ({
  onTestFinished,
}) => {
  const world = await createWorld('redis')
  onTestFinished(() => world.end())
  const { provider } = world
  const crashes = await crashEverywhere(world, {
    made: { backend: 'test', wake: { commands: ['serve &'], previewPort: 5173 } },
    async lose({ providerRef }) {
      provider.instances.delete(providerRef as string)
    },
    async truth(sandboxId) {
      return provider
        .instancesOf(sandboxId)
        .map(({ ref, state, incarnation }) => ({ ref, is: state, incarnation: String(incarnation) }))
    },
  })
  console.log(`${crashes.length} crashes`)
  expect(crashes.length).toBeGreaterThan(40)
}, 240_000)
