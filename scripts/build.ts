// Makes of src/ what is published: dist/, with JavaScript, with the types of what can be imported, and with what is no code. In a
// clone nothing needs it: there everything runs from the sources.

import { execFileSync } from 'node:child_process'
import { cpSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const root = path.dirname(import.meta.dirname)
const dist = path.join(root, 'dist')
const RELATIVE = /(\bfrom ['"]|\bimport\(['"])(\.[^'"]+)\.ts(?=['"])/g
const compiler = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc')

rmSync(dist, { recursive: true, force: true })
execFileSync(process.execPath, [compiler, '-p', path.join(root, 'tsconfig.build.json')], { stdio: 'inherit' })
cpSync(path.join(root, 'src'), dist, { recursive: true, filter: (file) => !file.endsWith('.ts') })
keepReachableTypes()

/**
 * Only the types that somebody can import, directly or by way of others. The rest would be most of them, and speak of packages that
 * are not there where their backends are not used.
 */
function keepReachableTypes(): void {
  const kept = new Set<string>()
  const keep = (file: string) => {
    if (kept.has(file)) return
    kept.add(file)
    // The compiler leaves the names of the sources in types, and those are not there.
    const text = readFileSync(file, 'utf8').replaceAll(RELATIVE, (_all, before: string, module: string) => {
      keep(path.resolve(path.dirname(file), `${module}.d.ts`))
      return `${before}${module}.js`
    })
    writeFileSync(file, text)
  }
  const { exports } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
    exports: Record<string, string>
  }
  for (const source of Object.values(exports))
    keep(path.resolve(root, source.replace(/^\.\/src\//, 'dist/').replace(/\.ts$/, '.d.ts')))
  for (const file of globSync(path.join(dist, '**/*.d.ts'))) if (!kept.has(file)) rmSync(file)
}
