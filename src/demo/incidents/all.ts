import type { Incident } from '../incident.ts'
import { nothingToResumeFrom } from './a-nothing-to-resume-from.ts'
import { pauseThatDeletes } from './b-pause-that-deletes.ts'
import { agentDeadSandboxRunning } from './c-agent-dead-sandbox-running.ts'
import { resumeThatCannotSayWhy } from './d-resume-that-cannot-say-why.ts'
import { killMeetsPause } from './e-kill-meets-pause.ts'

/** In the order in which they are played. */
export const INCIDENTS: readonly Incident[] = [
  nothingToResumeFrom,
  pauseThatDeletes,
  agentDeadSandboxRunning,
  resumeThatCannotSayWhy,
  killMeetsPause,
]
