import { expect, test } from 'vitest'
import { commandLinePage } from '../../printed/command-line.ts'
import { readArguments } from '../../src/cli/arguments.ts'
import { COMMANDS, SHOWN } from '../../src/cli/commands.ts'
import { sandman } from './setup.ts'

test('docs/command-line.md is what the table says', async () => {
  await expect(commandLinePage(COMMANDS)).toMatchFileSnapshot('../../docs/command-line.md')
})

test('every example is one that the command line understands', () => {
  const examples = SHOWN.flatMap(({ examples }) => examples.map(([line]) => line))
  const calls = examples.flatMap((line) => line.match(/(?<=^|\s|\()sandman [^|>)]+/g) ?? [])
  expect(calls.length).toBeGreaterThanOrEqual(examples.length)
  for (const call of calls) {
    const words = call.match(/'[^']*'|"[^"]*"|\S+/g)?.map((word) => word.replaceAll(/^['"]|['"]$/g, '')) ?? []
    // What xargs puts behind it.
    const given = call === 'sandman pause' ? [...words, 'sbx_1'] : words
    expect(readArguments(given.slice(1), COMMANDS)).toMatchObject({ is: 'command' })
  }
})

test('help is printed from the table, by --help and by its own command', async () => {
  const all = await sandman(['--help'])
  expect(all).toMatchObject({ code: 0, err: '' })
  for (const { name, summary } of SHOWN) expect(all.out).toContain(`  ${name.padEnd(10)}  ${summary}\n`)
  expect(all.out).not.toContain('__ids')
  expect(await sandman(['help'])).toEqual(all)
  for (const { name } of SHOWN) {
    const one = await sandman([name, '--help'])
    expect(one).toMatchObject({ code: 0, out: expect.stringContaining(`Usage\n  sandman ${name}`) })
    expect(await sandman(['help', name])).toEqual(one)
    expect(one.out).not.toContain('supervised')
  }
  expect((await sandman(['pause', '-h'])).out).toContain('5    not settled within --wait: it goes on')
})
