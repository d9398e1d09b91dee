import { execFile } from 'node:child_process'
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

export const ROOT = path.resolve(import.meta.dirname, '../..')

export type Packed = { tarball: string; files: { path: string; size: number }[]; size: number; clone: string }

/** What a release is made of, and what makes it. */
export const NEEDED = ['src', 'bin', 'scripts', 'package.json', 'tsconfig.json', 'tsconfig.build.json', '.npmrc']
export const SHOWN = ['README.md', 'LICENSE', 'CHANGELOG.md']

/** `npm pack`, in a copy of this clone: it exchanges package.json for a moment, which others are reading. */
export async function pack(folder: string): Promise<Packed> {
  const clone = path.join(folder, 'clone')
  await mkdir(clone)
  await Promise.all(
    [...NEEDED, ...SHOWN].map((name) => cp(path.join(ROOT, name), path.join(clone, name), { recursive: true })),
  )
  await symlink(path.join(ROOT, 'node_modules'), path.join(clone, 'node_modules'))
  // All is installed: this test runs on it.
  await writeFile(path.join(clone, 'scripts/install.mjs'), '')
  const { stdout } = await npm(clone, 'pack', '--json', '--foreground-scripts=false')
  // A list in some versions of npm, and an object by name in others.
  const [packed] = Object.values(JSON.parse(stdout) as Record<string, Packed & { filename: string }>)
  if (!packed) throw new Error(`npm packed nothing: ${stdout}`)
  return { tarball: path.join(clone, packed.filename), files: packed.files, size: packed.size, clone }
}

/** With a cache of its own, and nothing of how npm is set up on this machine. */
export function npm(cwd: string, ...args: string[]) {
  const { HOME, TMPDIR } = process.env
  const env = {
    PATH: `${path.dirname(process.execPath)}${path.delimiter}${process.env.PATH}`,
    HOME,
    TMPDIR,
    npm_config_userconfig: path.join(cwd, '.npmrc-of-nobody'),
    npm_config_cache: path.join(cwd, '.npm-cache'),
    npm_config_update_notifier: 'false',
  }
  return run('npm', args, { cwd, env, maxBuffer: 10_000_000 })
}

export async function readJson<T>(file: string): Promise<T> {
  return JSON.parse(await readFile(file, 'utf8')) as T
}
