import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'

export const ROOT = path.resolve(import.meta.dirname, '../..')

export type Document = { file: string; text: string }
export type Block = { file: string; line: number; language: string; given: string; code: string }

/** Every page that a person may read: those at the root, in `docs`, and beside the examples. */
export async function readDocuments(): Promise<Document[]> {
  const within = async (folder: string) =>
    (await readdir(path.join(ROOT, folder), { recursive: true }))
      .filter((name) => name.endsWith('.md') && !/(^|\/)(node_modules|\.venv)\//.test(name))
      .map((name) => path.join(folder, name))
  const atRoot = (await readdir(ROOT)).filter((name) => name.endsWith('.md'))
  const files = [...atRoot, ...(await within('docs')), ...(await within('examples'))].toSorted()
  return Promise.all(files.map(async (file) => ({ file, text: await readFile(path.join(ROOT, file), 'utf8') })))
}

/** What stands between three backticks; `<!-- given … -->` right above it is what its reader is supposed to have already. */
export function blocksOf({ file, text }: Document): Block[] {
  return [...text.matchAll(/(?:<!-- given\n([\s\S]*?)-->\n)?^```(\w*)\n([\s\S]*?)^```/gm)].map((match) => {
    const [, given = '', language = '', code = ''] = match
    return { file, line: text.slice(0, match.index).split('\n').length, language, given, code }
  })
}

/** Without what is code: only there a link is a link. */
export function proseOf(text: string): string {
  return text.replaceAll(/^```[\s\S]*?^```/gm, '').replaceAll(/`[^`\n]*`/g, '')
}

/** The anchors of a page, as GitHub makes them. */
export function anchorsOf(text: string): Set<string> {
  const seen = new Map<string, number>()
  const headings = text.replaceAll(/^```[\s\S]*?^```/gm, '').matchAll(/^#{1,6} (.+)$/gm)
  return new Set(
    [...headings].map(([, heading = '']) => {
      const plain = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/[`*]/g, '')
      const slug = plain
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(/\s/g, '-')
      const nth = seen.get(slug) ?? 0
      seen.set(slug, nth + 1)
      return nth === 0 ? slug : `${slug}-${nth}`
    }),
  )
}
