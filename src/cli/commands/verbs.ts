import { defineCommand } from '../command.ts'
import type { Exit } from '../exits.ts'
import { json, key, SANDBOXES, waiting, yes } from '../options.ts'

const exits: readonly Exit[] = ['refused', 'notFound', 'unsettled', 'interrupted']
const ID = 'sbx_01914d7c2a0f7c3b9a1e5d2f60'
const SEVERAL = 'Several sandboxes are asked for at once, a few at a time.'

export const pause = defineCommand({
  name: 'pause',
  group: 'Sandboxes',
  summary: 'put sandboxes to sleep',
  about: `It is done when the provider has shown what they can be woken from. ${SEVERAL}`,
  arguments: [SANDBOXES],
  options: {
    'if-unsupported': {
      value: 'kill',
      is: ['kill'],
      help: 'End those whose backend cannot pause, instead of refusing.',
    },
    'if-busy': {
      value: 'wait|interrupt',
      is: ['wait', 'interrupt'],
      help: 'What becomes of executions in them: wait for their end, or end them. Without it, it is refused.',
    },
    ...waiting,
    ...key,
    json,
  },
  examples: [
    [`sandman pause ${ID}`, 'and wait until it sleeps'],
    [`sandman pause ${ID} --if-busy interrupt --wait 5m`, 'whatever runs in it'],
  ],
  exits,
  run: async (invocation) => {
    const { values } = invocation
    const { askForAll } = await import('../verbs.ts')
    const options = {
      ifUnsupported: values['if-unsupported'],
      ifBusy: values['if-busy'],
    }
    return askForAll(invocation, {
      kind: 'pause',
      ask: (fleet, id, asking) => fleet.pause(id, { ...options, ...asking }),
    })
  },
})

export const resume = defineCommand({
  name: 'resume',
  group: 'Sandboxes',
  summary: 'wake sandboxes',
  about: `It is done when they were seen to be awake: restored, their wake commands run, and their preview answering. ${SEVERAL}`,
  arguments: [SANDBOXES],
  options: {
    'if-lost': {
      value: 'respawn',
      is: ['respawn'],
      help: 'Replace those that are lost by fresh ones under the same ids.',
    },
    'skip-hooks': { help: 'Without their wake commands and previews, to mend what keeps them from working.' },
    ...waiting,
    ...key,
    json,
  },
  examples: [
    [`sandman resume ${ID}`, 'and wait until it is awake'],
    [`sandman resume ${ID} --if-lost respawn`, 'a fresh one, if it is lost'],
  ],
  exits,
  run: async (invocation) => {
    const { values } = invocation
    const { askForAll } = await import('../verbs.ts')
    const options = { ifLost: values['if-lost'], skipHooks: values['skip-hooks'] }
    return askForAll(invocation, {
      kind: 'resume',
      ask: (fleet, id, asking) => fleet.resume(id, { ...options, ...asking }),
    })
  },
})

export const snapshot = defineCommand({
  name: 'snapshot',
  group: 'Sandboxes',
  summary: 'copy sandboxes while they keep running',
  about: `The checkpoint that it prints can be spawned from. ${SEVERAL}`,
  arguments: [SANDBOXES],
  options: {
    name: { value: '<name>', help: 'What to call the checkpoint.' },
    ...waiting,
    ...key,
    json,
  },
  examples: [
    [`sandman snapshot ${ID} --name before-the-upgrade`, 'and print its checkpoint'],
    ['sandman spawn --backend e2b --from ckpt_01914d7c2a0f7c3b9a1e5d2f62', 'another one that begins like it'],
  ],
  exits,
  run: async (invocation) => {
    const { name } = invocation.values
    const { askForAll } = await import('../verbs.ts')
    return askForAll(invocation, {
      kind: 'snapshot',
      ask: (fleet, id, asking) => fleet.snapshot(id, { ...(name !== undefined && { name }), ...asking }),
    })
  },
})

export const kill = defineCommand({
  name: 'kill',
  group: 'Sandboxes',
  summary: 'free what sandboxes compute with',
  about: `Those that are suspended have nothing left to free, and stay so. It asks first, on a terminal; anywhere else it needs --yes. ${SEVERAL}`,
  arguments: [SANDBOXES],
  options: { yes, ...waiting, ...key, json },
  examples: [[`sandman kill ${ID} --yes`, 'without a question']],
  exits,
  run: async (invocation) => {
    const { askForAll } = await import('../verbs.ts')
    return askForAll(invocation, {
      kind: 'kill',
      ask: (fleet, id, asking) => fleet.kill(id, asking),
      warning: 'What runs there ends, and is not kept.',
      isSure: invocation.values.yes,
    })
  },
})

export const destroy = defineCommand({
  name: 'destroy',
  group: 'Sandboxes',
  summary: 'end sandboxes for ever, with all that they could be resumed from',
  about: `It asks first, on a terminal; anywhere else it needs --yes. ${SEVERAL}`,
  arguments: [SANDBOXES],
  options: { yes, ...waiting, ...key, json },
  examples: [[`sandman destroy ${ID} --yes`, 'without a question']],
  exits,
  run: async (invocation) => {
    const { askForAll } = await import('../verbs.ts')
    return askForAll(invocation, {
      kind: 'destroy',
      ask: (fleet, id, asking) => fleet.destroy(id, asking),
      warning: 'They end for ever, with all that they could be resumed from.',
      isSure: invocation.values.yes,
    })
  },
})
