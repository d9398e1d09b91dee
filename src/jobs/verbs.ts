import type { Kind } from '../sandbox/judge.ts'
import type { Verb } from './operation.ts'
import { pause } from './pause.ts'
import { resume } from './resume.ts'
import { snapshot } from './snapshot.ts'
import { spawn } from './spawn.ts'
import { teardown } from './teardown.ts'

/** What carries out which kind of operation. */
export const VERBS = {
  spawn,
  pause,
  resume,
  snapshot,
  kill: teardown,
  destroy: teardown,
} as const satisfies Record<Kind, Verb>
