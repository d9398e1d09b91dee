import { PAGE, PAGE_MAX } from '../fleet/bounds.ts'

/** Options that several commands have. */

export const json = { help: 'One JSON document for programs, and nothing else.' } as const

export const watch = { help: 'Look again every two seconds, until Ctrl-C.', short: 'w' } as const

export const quiet = { help: 'Ids only, one a line.', short: 'q' } as const

export const yes = { help: 'Do not ask first.', short: 'y' } as const

export const waiting = {
  wait: { value: '<duration>', is: 'duration', help: 'How long to wait for the end of it. Defaults to 60s.' },
  'no-wait': { help: 'Do not wait: print what was accepted.' },
} as const

export const key = {
  'idempotency-key': {
    value: '<key>',
    help: 'The same key with the same request is the same operation, however often it is sent.',
  },
} as const

export const paging = {
  limit: { value: '<number>', is: 'number', help: `How many at most. Defaults to ${PAGE}; ${PAGE_MAX} is the most.` },
  cursor: { value: '<cursor>', help: 'Where an earlier page has ended.' },
} as const

export const SANDBOX = { name: 'sandbox', help: 'The id of a sandbox.', names: 'sandbox' } as const
export const SANDBOXES = {
  name: 'sandbox',
  help: 'The ids of one or more sandboxes.',
  names: 'sandbox',
  many: true,
} as const
export const EXECUTION = { name: 'execution', help: 'The id of an execution.', names: 'execution' } as const
