import { expect, test } from 'vitest'
import { housekeepingPage } from '../../printed/housekeeping.ts'

test('docs/housekeeping.md is what the tables say', async () => {
  await expect(housekeepingPage()).toMatchFileSnapshot('../../docs/housekeeping.md')
})
