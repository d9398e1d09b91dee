import type { Command } from './command.ts'
import { doctor, sweep } from './commands/care.ts'
import { cancel, exec, logs } from './commands/executions.ts'
import { demo, dev, migrate, web, worker } from './commands/processes.ts'
import { events, ls, show, spawn, why } from './commands/sandboxes.ts'
import { completion, help, ids } from './commands/shell.ts'
import { destroy, kill, pause, resume, snapshot } from './commands/verbs.ts'

/** All that there is, in the order in which it is told. */
export const COMMANDS: readonly Command[] = [
  ls,
  show,
  why,
  events,
  spawn,
  pause,
  resume,
  snapshot,
  kill,
  destroy,
  exec,
  logs,
  cancel,
  dev,
  demo,
  web,
  worker,
  migrate,
  doctor,
  sweep,
  completion,
  help,
  ids,
]

export const SHOWN = COMMANDS.filter(({ hidden }) => !hidden)
