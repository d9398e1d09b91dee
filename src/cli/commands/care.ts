import { BACKEND_NAMES } from '../../backends/names.ts'
import { defineCommand } from '../command.ts'
import { json } from '../options.ts'

export const doctor = defineCommand({
  name: 'doctor',
  group: 'Care',
  summary: 'check the configuration against the real services',
  about: 'It ends with 1 when it has found a problem.',
  options: { json },
  examples: [['sandman doctor', 'reachable, migrated, permitted, in time, and worked on']],
  run: async (invocation) => (await import('../doctor.ts')).doctor(invocation),
})

export const sweep = defineCommand({
  name: 'sweep',
  group: 'Care',
  summary: 'compare everything with the providers now, and report what is not as it should be',
  about:
    'It ends with 1 when a provider was not swept, or cannot be believed. What was found there is another question.',
  options: {
    'dry-run': { help: 'Do nothing about it.' },
    backend: { value: '<name>', offers: BACKEND_NAMES, help: 'Only this one.' },
    believe: { help: 'Accept for an hour that much has vanished.' },
    wait: { value: '<duration>', is: 'duration', help: 'How long to wait for the workers. Defaults to 60s.' },
    json,
  },
  examples: [
    ['sandman sweep --dry-run', 'what would be done, why, and what was seen'],
    ['sandman sweep --believe --backend e2b', 'what has vanished there is really gone'],
  ],
  exits: ['interrupted'],
  run: async (invocation) => (await import('../sweep.ts')).sweep(invocation),
})
