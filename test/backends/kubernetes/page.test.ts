import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { POD_RULES } from '../../../src/backends/kubernetes/pod-state.ts'

test('docs/kubernetes-backend.md has the rules by which a pod is read', async () => {
  const rows = POD_RULES.map(({ when, is }) => `| ${when} | ${is} |`)
  const table = ['| when | it is |', '|---|---|', ...rows].join('\n')
  const page = await readFile(new URL('../../../docs/kubernetes-backend.md', import.meta.url), 'utf8')
  const printed = page.replace(
    /(<!-- states -->\n)[\s\S]*?(<!-- \/states -->)/,
    (_all, start: string, end: string) => `${start}${table}\n${end}`,
  )
  expect(printed).toContain(table)
  await expect(printed).toMatchFileSnapshot('../../../docs/kubernetes-backend.md')
})
