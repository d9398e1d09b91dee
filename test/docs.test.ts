import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { describeConfig } from '../src/config.ts'

const root = path.resolve(import.meta.dirname, '..')

test('the README’s table of settings is the one in the code', async () => {
  const rows = describeConfig().map(
    ({ name, description, defaultsTo }) => `| \`${name}\` | ${defaultsTo && `\`${defaultsTo}\``} | ${description} |`,
  )
  const table = ['| setting | default | what it is |', '|---|---|---|', ...rows].join('\n')
  const readme = await readFile(path.join(root, 'README.md'), 'utf8')
  const printed = readme.replace(
    /(<!-- settings -->\n)[\s\S]*?(<!-- \/settings -->)/,
    (_all, start: string, end: string) => `${start}${table}\n${end}`,
  )
  expect(printed).toContain(table)
  await expect(printed).toMatchFileSnapshot('../README.md')
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
  const [readme, ci] = await Promise.all(
    ['README.md', '.ci/run'].map((file) => readFile(path.join(root, file), 'utf8')),
  )
  const command = /<!-- test command -->\n```sh\n(.+)\n```/.exec(readme as string)?.[1]
  expect(command).toBe('npm test')
  expect(ci?.split('\n')).toContain(command)
})

test('the lock file names no download hosts', async () => {
  expect(await readFile(path.join(root, 'package-lock.json'), 'utf8')).not.toContain('"resolved"')
})
