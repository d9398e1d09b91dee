import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { findViolations } from '../../src/db/invariants.ts'
import { createFleet } from '../../src/index.ts'
import { createDatabase } from '../support/database.ts'
import { ROOT } from '../support/documents.ts'

test('the rows of docs/migration.md are imported as it says, and are what they must be', async ({ onTestFinished }) => {
  const { db, pool, url, drop } = await createDatabase()
  const fleet = createFleet({ databaseUrl: url })
  onTestFinished(async () => {
    await fleet.close()
    await drop()
  })
  const page = await readFile(path.join(ROOT, 'docs/migration.md'), 'utf8')
  const statements = /<!-- import -->\n```sql\n([\s\S]+?)```/.exec(page)?.[1] ?? ''
  const given = `insert into old select 'i' || n, 'i' || n || '@2026-01-02', '2026-01-01', '2026-01-02', 'thread-' || n,
    jsonb_build_object('user', n) from generate_series(1, 3) as n;`
  await pool.query(statements.replace(/^-- \\copy .*$/m, given))

  const { items } = await fleet.list({ metadata: { user: 2 } })
  expect(items).toMatchObject([
    {
      state: 'suspended',
      backend: 'e2b',
      providerRef: 'i2',
      agentThreadId: 'thread-2',
      checkpoint: { providerRef: 'i2@2026-01-02' },
    },
  ])
  expect((await fleet.list({ state: 'suspended' })).items).toHaveLength(3)
  expect(await findViolations(db, { fleet: 'default' })).toEqual([])
  expect((await fleet.why(items[0]?.id as string)).answer).toContain('asleep since 2026-01-02 00:00:00Z')
})
