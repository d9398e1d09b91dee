// In a clone, `sandman` is its sources, which Node runs as they are. Below node_modules it would not, so what is published leads to
// dist/ instead. npm packs the package.json that it finds: before, this puts the published one there, and after, the clone's back.

import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'

type Manifest = { version: string; exports: Record<string, string>; [field: string]: unknown }

const root = path.dirname(import.meta.dirname)
const file = path.join(root, 'package.json')
const kept = path.join(root, '.package.json.kept')
const [command] = process.argv.slice(2)

if (command === 'publish') {
  restore() // what an interrupted `npm pack` has left
  const clone = readFileSync(file, 'utf8')
  writeFileSync(kept, clone)
  writeFileSync(file, published(clone))
} else if (command === 'restore') {
  restore()
} else if (command === 'refuse') {
  // `npm publish` of a folder tells the registry the clone's manifest, and nobody has tried what it packs.
  stop('Publish what was packed and tried: npm pack, then npm publish ./sandman-<version>.tgz')
}

function restore(): void {
  if (!existsSync(kept)) return
  if (readFileSync(file, 'utf8') !== published(readFileSync(kept, 'utf8')))
    stop(
      'package.json was changed while it was the published one: compare it with .package.json.kept, and delete that.',
    )
  renameSync(kept, file)
}

/**
 * Without what only a clone needs, and with the build in the place of the sources. It has the scripts, too, which are of no use
 * there: whoever interrupts `npm pack` is left with this, and the next `npm pack` has to find its way back.
 */
function published(clone: string): string {
  const { exports, devDependencies, allowScripts, ...rest } = JSON.parse(clone) as Manifest
  const built = Object.entries(exports).map(([name, source]) => {
    const module = source.replace(/^\.\/src\//, './dist/').replace(/\.ts$/, '')
    return [name, { types: `${module}.d.ts`, default: `${module}.js` }]
  })
  return `${JSON.stringify({ ...rest, exports: Object.fromEntries(built) }, null, 2)}\n`
}

function stop(why: string): never {
  process.stderr.write(`${why}\n`)
  process.exit(1)
}
