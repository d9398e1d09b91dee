import { readFileSync } from 'node:fs'
import path from 'node:path'

const manifest = JSON.parse(readFileSync(path.join(import.meta.dirname, '..', 'package.json'), 'utf8')) as {
  version: string
}

export const VERSION = manifest.version
