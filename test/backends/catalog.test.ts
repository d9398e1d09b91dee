import os from 'node:os'
import { expect, test } from 'vitest'
import { abilitiesOf } from '../../src/backends/backend.ts'
import { BACKENDS, listedAbilities } from '../../src/backends/catalog.ts'
import { BACKEND_NAMES } from '../../src/backends/names.ts'

test.each(BACKEND_NAMES)('what the catalog says of %s is what it can do', async (name) => {
  const backend = await BACKENDS[name].open({
    fleet: 'test',
    dataFolder: os.tmpdir(),
    e2b: { apiKey: 'no key is needed to open it' },
    agentuity: { apiKey: 'nor for this one' },
    kubernetes: { connection: { server: 'http://127.0.0.1:1', token: 'nobody is asked' }, pause: 'disk' },
  })
  expect(listedAbilities()).toContainEqual(abilitiesOf(backend))
  await backend.close()
})
