import { BACKEND_NAMES } from '../../backends/names.ts'
import { TAG_CHARS_MAX, TAGS_MAX } from '../../fleet/bounds.ts'
import { STATES } from '../../sandbox/states.ts'
import { defineCommand } from '../command.ts'
import { json, key, paging, quiet, SANDBOX, watch } from '../options.ts'

export const ls = defineCommand({
  name: 'ls',
  group: 'Sandboxes',
  summary: 'list the sandboxes of the fleet, the newest first',
  options: {
    state: { value: '<state>', is: STATES, help: 'Only those in this state.' },
    backend: { value: '<name>', offers: BACKEND_NAMES, help: 'Only those of this backend.' },
    metadata: {
      value: '<key=value>',
      is: 'pair',
      many: true,
      help: `Only those with this in their metadata: text, a number, true or false on its first level, of ${TAG_CHARS_MAX} characters at most. Of each sandbox, ${TAGS_MAX} such values can be searched, those with the shortest names.`,
    },
    id: { value: '<prefix>', help: 'Only those whose id begins like this.' },
    ...paging,
    all: { help: 'Every page, and not only the first.' },
    quiet,
    json,
    watch,
  },
  examples: [
    ['sandman ls --state running', 'what runs'],
    ['sandman ls --metadata tenant=acme --backend e2b', 'one customer’s, at one provider'],
    ['sandman ls --state running --all --quiet | xargs sandman pause', 'put everything to sleep'],
    ['sandman ls --json | jq -r ".items[].preview_url"', 'for programs'],
    ['sandman ls --watch', 'what becomes of them'],
  ],
  run: async (invocation) => (await import('../ls.ts')).ls(invocation),
})

export const show = defineCommand({
  name: 'show',
  group: 'Sandboxes',
  summary: 'show a sandbox with its operations, executions and latest history; or an operation, or an execution',
  arguments: [{ name: 'id', help: 'The id of a sandbox, an operation or an execution.', names: 'sandbox' }],
  options: { json, watch },
  examples: [
    ['sandman show sbx_01914d7c2a0f7c3b9a1e5d2f60', 'a sandbox'],
    ['sandman show op_01914d7c2a0f7c3b9a1e5d2f61 --watch', 'an operation, until it has settled'],
  ],
  exits: ['notFound'],
  run: async (invocation) => (await import('../show.ts')).show(invocation),
})

export const why = defineCommand({
  name: 'why',
  group: 'Sandboxes',
  summary: 'tell how a sandbox got where it is',
  arguments: [SANDBOX],
  options: { json },
  examples: [['sandman why sbx_01914d7c2a0f7c3b9a1e5d2f60', 'in sentences: who asked for what, and what came of it']],
  exits: ['notFound'],
  run: async (invocation) => (await import('../why.ts')).why(invocation),
})

export const events = defineCommand({
  name: 'events',
  group: 'Sandboxes',
  summary: 'print the history of a sandbox, in the order in which it happened',
  arguments: [SANDBOX],
  options: { ...paging, json, watch: { ...watch, help: 'Go on with what happens, until Ctrl-C.' } },
  examples: [
    ['sandman events sbx_01914d7c2a0f7c3b9a1e5d2f60', 'from the beginning'],
    ['sandman events sbx_01914d7c2a0f7c3b9a1e5d2f60 --watch', 'and what happens from now on'],
  ],
  exits: ['notFound'],
  run: async (invocation) => (await import('../events.ts')).events(invocation),
})

export const spawn = defineCommand({
  name: 'spawn',
  group: 'Sandboxes',
  summary: 'make a sandbox',
  rest: { help: 'The agent: a program and its arguments.', optional: true },
  options: {
    backend: { value: '<name>', offers: BACKEND_NAMES, help: 'Where. It has to be given.' },
    template: { value: '<name>', help: 'What it begins as: an image or a template of the provider.' },
    from: { value: '<checkpoint>', help: 'The id of a checkpoint that its files begin as.' },
    env: { value: '<key=value>', is: 'pair', many: true, help: 'A variable of the agent.' },
    metadata: { value: '<key=value>', is: 'pair', many: true, help: 'What you want to find it by.' },
    ttl: {
      value: '<limit=duration>',
      is: 'pair',
      many: true,
      offers: ['idle=', 'hard=', 'retention=', 'if_unsupported=kill'],
      help: 'Its limits: idle=30m, hard=7d, retention=30d, if_unsupported=kill.',
    },
    thread: { value: '<id>', help: 'The thread of the agent that it belongs to.' },
    'wake-command': { value: '<command>', many: true, help: 'A shell command to run whenever it wakes.' },
    'preview-port': { value: '<port>', is: 'number', help: 'A port that answers HTTP once it is awake.' },
    wait: { value: '<duration>', is: 'duration', help: 'How long to wait until it runs. Defaults to 60s.' },
    'no-wait': { help: 'Do not wait: print what was accepted.' },
    ...key,
    quiet: { ...quiet, help: 'Its id only.' },
    json,
  },
  examples: [
    ['sandman spawn --backend local', 'an empty one on this machine'],
    [
      'sandman spawn --backend docker --template node:24 --ttl idle=30m -- node agent.js',
      'with an agent, put to sleep when it idles',
    ],
    ['sandman spawn --backend e2b --metadata tenant=acme --quiet', 'its id for a script'],
  ],
  exits: ['refused', 'unsettled', 'interrupted'],
  run: async (invocation) => (await import('../spawn.ts')).spawn(invocation),
})
