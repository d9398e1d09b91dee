import { expect, test } from 'vitest'
import { executionsPage } from '../../printed/executions.ts'

test('docs/executions.md is what the tables say', async () => {
  await expect(executionsPage()).toMatchFileSnapshot('../../docs/executions.md')
})
