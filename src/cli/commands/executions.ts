import { defineCommand } from '../command.ts'
import { EXECUTION, json, key, SANDBOX, waiting } from '../options.ts'

const SANDBOX_ID = 'sbx_01914d7c2a0f7c3b9a1e5d2f60'
const EXECUTION_ID = 'exe_01914d7c2a0f7c3b9a1e5d2f63'

export const exec = defineCommand({
  name: 'exec',
  group: 'Executions',
  summary: 'run a command in a sandbox, and print what it prints',
  about:
    'A sandbox that sleeps is woken first. Without a command, it follows the agent that the sandbox was made with. It exits with the command’s own code. Ctrl-C leaves the command running, and says how to see and how to cancel it.',
  arguments: [SANDBOX],
  rest: { help: 'The command: a program and its arguments.', optional: true },
  options: {
    deadline: { value: '<duration>', is: 'duration', help: 'Then it is stopped, whatever it does. Defaults to 24h.' },
    silence: { value: '<duration>', is: 'duration', help: 'Without output for so long, it is stopped.' },
    'if-suspended': { value: 'refuse', is: ['refuse'], help: 'Do not wake a sandbox that sleeps.' },
    'if-lost': {
      value: 'respawn',
      is: ['respawn'],
      help: 'Replace a sandbox that is lost by a fresh one, and run there.',
    },
    ...key,
    detach: { help: 'Do not wait: print the id of the execution.', short: 'd' },
    json: { help: 'With --detach: one JSON document for programs.' },
  },
  examples: [
    [`sandman exec ${SANDBOX_ID} -- npm test`, 'and exit as the tests do'],
    [`sandman exec ${SANDBOX_ID} --detach -- sh -c 'sleep 600; date'`, 'only its id'],
  ],
  exits: ['broken', 'interrupted'],
  run: async (invocation) => (await import('../exec.ts')).exec(invocation),
})

export const logs = defineCommand({
  name: 'logs',
  group: 'Executions',
  summary: 'print what an execution has printed, byte for byte',
  about: 'On a terminal, what could harm it is left out: all escape sequences but colours.',
  arguments: [EXECUTION],
  options: {
    follow: { help: 'Go on with what it prints, until it has ended.', short: 'f' },
    from: { value: '<byte>', is: 'number', help: 'The byte to begin with.' },
  },
  examples: [
    [`sandman logs ${EXECUTION_ID} --follow`, 'live'],
    [`sandman logs ${EXECUTION_ID} > output.bin`, 'all of it, as it was printed'],
  ],
  exits: ['notFound', 'interrupted'],
  run: async (invocation) => (await import('../logs.ts')).logs(invocation),
})

export const cancel = defineCommand({
  name: 'cancel',
  group: 'Executions',
  summary: 'stop an execution',
  about: 'It is done when its agent was seen to have ended.',
  arguments: [EXECUTION],
  options: { ...waiting, json },
  examples: [[`sandman cancel ${EXECUTION_ID}`, 'and wait until it has ended']],
  exits: ['notFound', 'unsettled', 'interrupted'],
  run: async (invocation) => (await import('../cancel.ts')).cancel(invocation),
})
