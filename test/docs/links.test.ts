import { readdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { anchorsOf, type Document, proseOf, ROOT, readDocuments } from '../support/documents.ts'

let documents: Document[]
let sources: string[]
beforeAll(async () => {
  documents = await readDocuments()
  sources = (await Promise.all(FOLDERS.map((folder) => readdir(path.join(ROOT, folder), { recursive: true })))).flat()
})

/** Where a file may be that is named by its path from there, or, as in a drawing, by its name alone. */
const FOLDERS = ['src', 'test', 'examples', 'deploy', 'proof']
const FILE = /(?<![\w./@*-])(?:[\w-][\w.-]*\/)*[\w-]+(?:\.[\w-]+)*\.(?:ts|mjs|yaml|py)\b/g
/** The reader makes it. */
const TO_BE_MADE = ': app.ts'

const isThere = (file: string) =>
  stat(path.join(ROOT, file)).then(
    () => true,
    () => false,
  )

/** What leads nowhere, of the links and pictures of a page. */
async function brokenIn({ file, text }: Document): Promise<string[]> {
  const broken: string[] = proseOf(text).match(/\]\((?![^)\s]+\)).{0,40}/g) ?? []
  for (const [, target = ''] of proseOf(text).matchAll(/\]\(([^)\s]+)\)/g)) {
    if (/^[a-z]+:/.test(target)) continue
    const [to = '', anchor] = target.split('#')
    const at = to === '' ? file : path.join(path.dirname(file), decodeURIComponent(to))
    if (!(await isThere(at))) broken.push(target)
    else if (anchor !== undefined) {
      const page = documents.find((document) => document.file === at)
      if (!page || !anchorsOf(page.text).has(anchor)) broken.push(target)
    }
  }
  return broken
}

test('every link leads to a file that is there, and to a heading that it has', async () => {
  expect(documents.length).toBeGreaterThan(30)
  for (const document of documents) expect([document.file, await brokenIn(document)]).toEqual([document.file, []])
})

test('a link that leads nowhere is noticed', async () => {
  const text =
    '[0](docs/errors.md and [a](docs/nothing.md) [b](docs/errors.md#nothing) [c](#here) ![d](docs/no.png) `[e](no)`\n# Here\n'
  expect(await brokenIn({ file: 'README.md', text })).toEqual([
    expect.stringMatching(/^\]\(docs\/errors.md and/),
    'docs/nothing.md',
    'docs/errors.md#nothing',
    '#here',
    'docs/no.png',
  ])
})

test('every page of docs/ is in its index, and every picture on some page', async () => {
  const index = documents.find(({ file }) => file === 'docs/README.md')?.text ?? ''
  const pages = (await readdir(path.join(ROOT, 'docs'))).filter((name) => /\.(md|txt)$/.test(name))
  expect(pages.filter((name) => name !== 'README.md' && !index.includes(`(${name})`))).toEqual([])
  const all = documents.map(({ text }) => text).join('\n')
  const pictures = await readdir(path.join(ROOT, 'docs/images'))
  expect(pictures.filter((name) => !all.includes(`images/${name})`))).toEqual([])
})

test('every file that a page names is there', async () => {
  const missing: string[] = []
  for (const { file, text } of documents) {
    const named = text.replaceAll('%5B', '[').replaceAll('%5D', ']').matchAll(FILE)
    for (const [name] of named)
      if (!sources.some((source) => source === name || source.endsWith(`/${name}`)) && !(await isThere(name)))
        missing.push(`${file}: ${name}`)
  }
  expect(missing.filter((each) => !each.endsWith(TO_BE_MADE))).toEqual([])
})
