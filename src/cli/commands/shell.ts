import { defineCommand } from '../command.ts'

const SHELLS = ['bash', 'zsh', 'fish'] as const

export const completion = defineCommand({
  name: 'completion',
  group: 'Shell',
  summary: 'print a script that completes commands, options and ids',
  arguments: [{ name: 'shell', help: 'bash, zsh or fish.', names: SHELLS }],
  options: {},
  examples: [
    ['source <(sandman completion bash)', 'in ~/.bashrc'],
    ['source <(sandman completion zsh)', 'in ~/.zshrc, behind compinit'],
    ['sandman completion fish > ~/.config/fish/completions/sandman.fish', 'once'],
  ],
  run: async (invocation) => (await import('../completion.ts')).completion(invocation),
})

export const help = defineCommand({
  name: 'help',
  group: 'Shell',
  summary: 'explain a command',
  arguments: [{ name: 'command', help: 'The name of a command.', optional: true }],
  options: {},
  examples: [['sandman help pause', 'the same as sandman pause --help']],
  run: async (invocation) => (await import('../help.ts')).help(invocation),
})

/** What a completion asks for while somebody types. */
export const ids = defineCommand({
  name: '__ids',
  group: 'Shell',
  summary: 'print the ids that begin so',
  arguments: [
    { name: 'kind', help: 'sandbox or execution.', names: ['sandbox', 'execution'] },
    { name: 'prefix', help: 'What was typed.', optional: true },
  ],
  options: {},
  examples: [],
  hidden: true,
  run: async (invocation) => (await import('../ids.ts')).ids(invocation),
})
