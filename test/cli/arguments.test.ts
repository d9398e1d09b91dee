import { describe, expect, test } from 'vitest'
import { readArguments } from '../../src/cli/arguments.ts'
import { COMMANDS } from '../../src/cli/commands.ts'
import { sandman } from './setup.ts'

const read = (...argv: string[]) => readArguments(argv, COMMANDS)
const ID = `sbx_${'0'.repeat(26)}`

describe('what was typed', () => {
  test('is read by the table: flags, values, lists, numbers, arguments, and what stands behind --', () => {
    expect(
      read('ls', '--state', 'running', '--metadata', 'a=1', '--metadata=b=2', '--limit', '5', '--json'),
    ).toMatchObject({
      command: { name: 'ls' },
      values: { state: 'running', metadata: ['a=1', 'b=2'], limit: 5, json: true, watch: false, backend: undefined },
    })
    expect(read('exec', ID, '--deadline', '5m', '--', 'sh', '-c', 'echo --json')).toMatchObject({
      values: { deadline: '5m', json: false },
      args: [ID],
      rest: ['sh', '-c', 'echo --json'],
    })
    expect(read('ls', '-w', '-q')).toMatchObject({ values: { watch: true, quiet: true } })
    expect(read('pause', ID, ID.replace('0', '1'))).toMatchObject({ args: [ID, ID.replace('0', '1')] })
  })

  test.each([
    [[], 'a command is needed'],
    [['nap'], 'there is no command "nap"\n'],
    [['pasue', ID], 'there is no command "pasue"; did you mean pause?'],
    [['hibernate'], 'there is no command "hibernate"'],
    [['constructor'], 'there is no command "constructor"'],
    [['--json', 'ls'], 'the command comes first, and "--json" behind it'],
    [['ls', '--stat', 'running'], 'ls has no option "--stat"; did you mean --state?'],
    [['ls', '--believe'], 'ls has no option "--believe"; it is one of sweep'],
    [['ls', '--supervised'], 'ls has no option "--supervised"'],
    [['ls', '--constructor'], 'ls has no option "--constructor"'],
    [['ls', '-x'], 'ls has no option "-x"'],
    [['ls', '--state', 'runing'], '--state cannot be "runing": it can be running, suspended, gone, provisioning'],
    [['ls', '--state'], '--state needs a value: --state <state>'],
    [['ls', '--state', '--json'], '--state needs a value: --state <state>'],
    [['ls', '--state='], '--state must not be empty'],
    [['ls', '--state', 'gone', '--state', 'running'], '--state can be given once'],
    [['ls', '--limit', 'many'], '--limit must be a whole number'],
    [['ls', '--metadata', 'tenant'], '--metadata must be of the form key=value'],
    [['ls', '--json=yes'], '--json takes no value'],
    [['ls', 'running'], 'ls does not know what to do with "running"'],
    [['ls', '--', 'x'], 'ls takes nothing behind --'],
    [['exec', ID, 'npm', 'test'], 'exec does not know what to do with "npm" (a command goes behind --)'],
    [['why'], 'why needs <sandbox>: the id of a sandbox'],
    [['pause'], 'pause needs <sandbox>: the ids of one or more sandboxes'],
    [['pause', ID, '--wait', 'long'], '--wait must be a duration such as 90s, 15m or 24h'],
    [['pause', ID, '--if-unsupported', 'destroy'], '--if-unsupported cannot be "destroy": it can be kill\n'],
    [['ls\x1b[2J'], 'there is no command "ls\\e[2J"'],
  ])('%j is wrong usage, and it is said how', async (argv, message) => {
    const { code, out, err } = await sandman(argv)
    expect(err).toContain(`sandman: ${message}`)
    expect(err).toMatch(/--help (explains it|lists the commands)\.\n$/)
    expect({ code, out }).toEqual({ code: 2, out: '' })
  })

  test('what contradicts itself is refused before anybody is asked', async () => {
    for (const argv of [
      ['ls', '--all', '--watch'],
      ['ls', '--quiet', '--json'],
      ['ls', '--all', '--limit', '3'],
      ['spawn'],
      ['spawn', '--backend', 'local', '--env', 'A=1'],
      ['spawn', '--backend', 'local', '--ttl', 'idel=30m'],
      ['spawn', '--backend', 'local', '--ttl', 'idle=30m,hard'],
      ['spawn', '--backend', 'local', '--ttl', 'if_unsupported=destroy'],
      ['pause', ID, ID.replace('0', '1'), '--idempotency-key', 'k'],
      ['exec', ID, '--json'],
      ['completion', 'bahs'],
      ['help', 'nap'],
    ]) {
      const { code, err } = await sandman(argv)
      expect({ argv, code }).toEqual({ argv, code: 2 })
      expect(err).toMatch(/^sandman: /)
      const [command] = argv
      const next = command === 'help' ? 'sandman --help lists the commands.' : `sandman ${command} --help explains it.`
      expect(err.split('\n').at(-2)).toBe(next)
    }
  })
})
