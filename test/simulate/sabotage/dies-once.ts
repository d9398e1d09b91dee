import { existsSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { Sabotage } from '../../../simulate/world.ts'

/** Whoever has begun this run first. The one who comes after it lives. */
const died = path.join(os.tmpdir(), `sandman-dies-once-${process.ppid}`)

export const sabotage: Sabotage = {
  statement(text) {
    if (existsSync(died)) return text
    writeFileSync(died, '')
    process.exit(7)
  },
}
