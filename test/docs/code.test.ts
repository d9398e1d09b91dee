import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, test } from 'vitest'
import { readArguments } from '../../src/cli/arguments.ts'
import { COMMANDS } from '../../src/cli/commands.ts'
import { describeConfig } from '../../src/config.ts'
import { type Block, blocksOf, type Document, ROOT, readDocuments } from '../support/documents.ts'

let documents: Document[]
let blocks: Block[]
beforeAll(async () => {
  documents = await readDocuments()
  blocks = documents.flatMap(blocksOf)
})

const shells = () => blocks.filter(({ language }) => language === 'sh')

/** With what its reader is supposed to have: before it, or around it where that has a line of three dots. */
function wholeOf({ file, given, code }: Block): string {
  const [before = '', after = ''] = given.split('// …\n')
  return `// Printed from ${file}.\n${before}${code}${after}`
}

test('every piece of TypeScript is printed to where `npm run check` compiles it', async () => {
  const pages = documents.filter(({ file }) => !file.startsWith('examples'))
  const printed: string[] = []
  for (const page of pages) {
    const pieces = blocksOf(page).filter(({ language }) => language === 'ts')
    for (const [n, piece] of pieces.entries()) {
      const name = `${path.basename(page.file, '.md').toLowerCase()}-${n + 1}.ts`
      printed.push(name)
      await expect(wholeOf(piece)).toMatchFileSnapshot(`pieces/${name}`)
    }
  }
  expect((await readdir(path.join(import.meta.dirname, 'pieces'))).toSorted()).toEqual(printed.toSorted())
})

/** `sandman …` as it is called in a line of a shell, without what follows in a pipe or a comment. */
function callsIn(code: string): string[] {
  return code
    .replaceAll(/\\\n\s*/g, ' ')
    .split('\n')
    .flatMap(
      (line) => line.replace(/(^|\s)#.*$/, '').match(/(?<=^\s*|npx |xargs |\(|=\S+ )sandman [a-z_][^|>&)]*/g) ?? [],
    )
}

test('every call of the command line in a page is one that it understands', () => {
  const calls = shells().flatMap(({ file, code }) => callsIn(code).map((call) => ({ file, call })))
  expect(calls.length).toBeGreaterThan(30)
  for (const { file, call } of calls) {
    const words = call.match(/'[^']*'|"[^"]*"|\S+/g)?.map((word) => word.replaceAll(/^['"]|['"]$/g, '')) ?? []
    // What xargs puts behind it.
    const given = /^sandman pause\s*$/.test(call) ? [...words, 'sbx_1'] : words
    expect([file, call, readArguments(given.slice(1), COMMANDS)]).toMatchObject([file, call, { is: 'command' }])
  }
})

test('every npm script that a page names is one of the package', async () => {
  const { scripts } = JSON.parse(await readFile(path.join(ROOT, 'package.json'), 'utf8')) as { scripts: object }
  for (const { file, text } of documents.filter(({ file }) => !file.startsWith('examples')))
    for (const [, name = ''] of text.matchAll(/\bnpm run ([\w:-]+)/g)) {
      expect([file, name, Object.keys(scripts)]).toEqual([file, name, expect.arrayContaining([name])])
    }
})

test('every setting that a page names is one that something reads', async () => {
  const settings = describeConfig().map(({ name }) => name)
  const sources: string[] = []
  for (const folder of ['src', 'test', 'examples', 'scripts', 'proof', 'deploy'])
    for (const file of await readdir(path.join(ROOT, folder), { recursive: true }))
      if (/\.(ts|mjs|py|yaml|env)$/.test(file) && !file.includes('node_modules'))
        sources.push(await readFile(path.join(ROOT, folder, file), 'utf8'))
  const unread: string[] = []
  for (const { file, text } of documents)
    for (const name of new Set(text.match(/\b(?:SANDMAN|E2B|AGENTUITY|DOCKER)_[A-Z0-9_]*[A-Z0-9]\b/g) ?? []))
      if (!settings.includes(name) && !sources.some((source) => source.includes(name))) unread.push(`${file}: ${name}`)
  expect(unread).toEqual([])
})

test('what is given to a shell in a page is spelled as a shell reads it', async () => {
  const complaintOf = (code: string) =>
    promisify(execFile)('bash', ['-n', '-c', code]).then(
      () => '',
      (error: { stderr: string }) => error.stderr,
    )
  // All at once, and one by one only to say which it is.
  const whole = shells().map(({ code }) => code)
  if ((await complaintOf(whole.join('\n'))) === '') return
  for (const { file, line, code } of shells()) expect([file, line, await complaintOf(code)]).toEqual([file, line, ''])
})
