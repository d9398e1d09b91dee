import { expect, test } from 'vitest'
import { lifecyclePage, stateDiagram } from '../../printed/lifecycle.ts'

test('docs/lifecycle.md is what the tables say', async () => {
  await expect(lifecyclePage()).toMatchFileSnapshot('../../docs/lifecycle.md')
})

test('the diagram shows every move once', () => {
  const edges = stateDiagram().split('\n').slice(1)
  expect(edges).toContain('  running --> pausing: pause_began')
  expect(edges).toContain('  [*] --> provisioning: spawn_began')
  expect(new Set(edges).size).toBe(edges.length)
})
