import { QUEUE_NAMES } from '../../queues/names.ts'
import { defineCommand } from '../command.ts'

const supervised = { help: 'Run as a part of sandman dev.', hidden: true } as const

export const dev = defineCommand({
  name: 'dev',
  group: 'Processes',
  summary: 'everything on this machine: Postgres if there is none, web and worker',
  options: {},
  examples: [['sandman dev', 'what npm start runs']],
  run: async ({ session }) => (await import('../roles.ts')).dev(session),
})

export const demo = defineCommand({
  name: 'demo',
  group: 'Processes',
  summary: 'see five ways in which sandboxes get lost, and what becomes of them here',
  about:
    'Plays five incidents with real processes on this machine: what the usual code does beside what Sandman does. It takes less than a minute, needs nothing, and leaves nothing behind: it has a Postgres, a worker and a console of its own, and shows itself there, too.',
  options: {
    only: {
      value: '<A,C>',
      offers: ['A', 'B', 'C', 'D', 'E'],
      help: 'Only these incidents, separated by commas.',
    },
    keep: { help: 'When it is over, keep its console until Enter or Ctrl-C.' },
    json: { help: 'Print all that was shown as one object, when it is over. All incidents are played at once then.' },
  },
  examples: [
    ['sandman demo', 'what npm run demo runs'],
    ['sandman demo --only A,E --keep', 'two of them, and time to look around in the console'],
    ['sandman demo --json', 'what was seen, for a script'],
  ],
  exits: ['interrupted'],
  run: async (invocation) => (await import('../demo.ts')).demo(invocation),
})

export const web = defineCommand({
  name: 'web',
  group: 'Processes',
  summary: 'serve the API, the console and Bull Board',
  options: { supervised },
  examples: [['PORT=8080 sandman web', 'on another port']],
  run: async ({ session, values }) => (await import('../roles.ts')).web(session, values.supervised),
})

export const worker = defineCommand({
  name: 'worker',
  group: 'Processes',
  summary: 'take jobs from the queues',
  options: {
    queues: {
      value: '<a,b>',
      offers: QUEUE_NAMES,
      help: 'Only from these, separated by commas; instead of SANDMAN_QUEUES.',
    },
    supervised,
  },
  examples: [['sandman worker --queues resume,streams', 'only what somebody waits for']],
  run: async ({ session, values }) => (await import('../roles.ts')).worker(session, values.supervised, values.queues),
})

export const migrate = defineCommand({
  name: 'migrate',
  group: 'Processes',
  summary: 'bring the database up to date',
  about: 'Any number may run at once.',
  options: {},
  examples: [['sandman migrate', 'before a release starts']],
  run: async ({ session }) => (await import('../roles.ts')).migrate(session),
})
