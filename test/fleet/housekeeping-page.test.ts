import { expect, test } from 'vitest'
import { housekeepingPage } from '../../src/fleet/housekeeping-page.ts'

test('docs/housekeeping.md is what the tables say', async () => {
  await expect(housekeepingPage()).toMatchFileSnapshot('../../docs/housekeeping.md')
})
