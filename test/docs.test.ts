import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { load } from 'js-yaml'
import { expect, test } from 'vitest'
import { ALERTS } from '../printed/alerts.ts'
import { describeConfig } from '../src/config.ts'
import {
  alertPart,
  allSettings,
  backendsTable,
  fillIn,
  lifecycleSketch,
  queuesTable,
  usualSettings,
} from './support/printed.ts'

const root = path.resolve(import.meta.dirname, '..')
const read = (file: string) => readFile(path.join(root, file), 'utf8')

test('what README.md says of settings, states and backends is what the code says', async () => {
  const printed = fillIn(await read('README.md'), {
    settings: usualSettings(),
    lifecycle: lifecycleSketch(),
    backends: await backendsTable('docs/', { columns: 'few' }),
  })
  await expect(printed).toMatchFileSnapshot('../README.md')
})

test('docs/configuration.md has every setting, and docs/backends.md every backend', async () => {
  const settings = fillIn(await read('docs/configuration.md'), { settings: allSettings() })
  await expect(settings).toMatchFileSnapshot('../docs/configuration.md')
  const backends = fillIn(await read('docs/backends.md'), { backends: await backendsTable('', { columns: 'all' }) })
  await expect(backends).toMatchFileSnapshot('../docs/backends.md')
})

test('docs/scaling.md has the numbers of every queue', async () => {
  await expect(fillIn(await read('docs/scaling.md'), { queues: queuesTable() })).toMatchFileSnapshot(
    '../docs/scaling.md',
  )
})

test('docs/operations.md says of every alert what it means, and more than that', async () => {
  const parts = Object.fromEntries(ALERTS.map((alert) => [alert.name, alertPart(alert)]))
  const page = fillIn(await read('docs/operations.md'), parts)
  await expect(page).toMatchFileSnapshot('../docs/operations.md')
  const { groups } = load(await read('deploy/prometheus/alerts.yaml')) as { groups: { rules: { alert: string }[] }[] }
  for (const { alert } of groups.flatMap(({ rules }) => rules)) {
    const [, byHand = ''] =
      new RegExp(`\n### ${alert}\n[\\s\\S]*?<!-- /${alert} -->\n([\\s\\S]*?)\n##`).exec(page) ?? []
    expect([alert, byHand.trim().length > 100]).toEqual([alert, true])
  }
})

test('.env.example names every setting', async () => {
  const settings = describeConfig().map(
    ({ name, description, defaultsTo }) => `# ${description.replaceAll('`', '')}\n# ${name}=${defaultsTo}`,
  )
  await expect(`# Copy this to .env, and uncomment what you need.\n\n${settings.join('\n\n')}\n`).toMatchFileSnapshot(
    '../.env.example',
  )
})

test('CI runs the test command that the README gives', async () => {
  const [readme, ci] = await Promise.all([read('README.md'), read('.ci/run')])
  const command = /<!-- test command -->\n```sh\n(.+)\n```/.exec(readme)?.[1]
  expect(command).toBe('npm test')
  expect(ci.split('\n')).toContain(command)
})

test('the lock file names no download hosts', async () => {
  expect(await read('package-lock.json')).not.toContain('"resolved"')
})
