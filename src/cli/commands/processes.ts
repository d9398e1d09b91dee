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
