import { type ChildProcess, spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { describeWorld } from '../support/describe-world.ts'
import { environmentOf } from './setup.ts'

const root = path.resolve(import.meta.dirname, '../..')
const SANDMAN = `${process.execPath} ${path.join(root, 'src/main.ts')}`

type Ended = { code: number | null; printed: string }

/** Runs a line of shell. What it prints can be waited for, and answered. */
function shell(
  argv: string[],
  env: Record<string, string | undefined>,
): { child: ChildProcess; ended: Promise<Ended>; says(text: RegExp): Promise<void> } {
  const [program = '', ...args] = argv
  const { PATH, HOME, NODE_COMPILE_CACHE } = process.env
  const child = spawn(program, args, { env: { PATH, HOME, NODE_COMPILE_CACHE, TERM: 'xterm', ...env }, cwd: root })
  onTestFinished(() => void child.kill('SIGKILL'))
  let printed = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (printed += data))
  return {
    child,
    ended: new Promise((resolve) => child.once('close', (code) => resolve({ code, printed }))),
    says: (text) => expect.poll(() => printed).toMatch(text),
  }
}

/** With a real terminal around it. */
const onTerminal = (command: string) => ['script', '-qec', `${SANDMAN} ${command}`, '/dev/null']

describeWorld(
  'a real process of the command line',
  (world) => {
    test('runs the session of docs/command-line.md as it stands', async () => {
      const page = await readFile(path.join(root, 'docs/command-line.md'), 'utf8')
      const session = /## A session\n\n```sh\n([\s\S]+?)```/.exec(page)?.[1] ?? ''
      const script = `set -euo pipefail\nsandman() { ${SANDMAN} "$@"; }\n${session}`
      const { code, printed } = await shell(['bash', '-c', script], environmentOf(world())).ended
      const [, id = ''] = /^hello\n(sbx_\w+) {2}suspended {2}pause done/.exec(printed) ?? []
      expect({ code, id, printed }).toMatchObject({ code: 0, id: expect.stringMatching(/^sbx_/) })
      expect(printed).toMatch(new RegExp(`ID +STATE .*\n${id} +suspended +local .* tenant=acme\n`))
      expect(printed).toMatch(new RegExp(`\n${id} +running +resume done`))
      expect(printed).toMatch(/Executions, the newest first\n {2}exe_\w+ +succeeded/)
      expect(printed).toMatch(new RegExp(`\n${id} +gone +destroy done in .*\n$`))
    })

    test('asks on a terminal before it destroys, and is content with no', async () => {
      const { id } = await world().running()
      const { child, ended, says } = shell(onTerminal(`destroy ${id}`), environmentOf(world()))
      await says(/destroy 1 sandbox\? \[y\/N\] $/)
      child.stdin?.write('n\n')
      const { code, printed } = await ended
      expect(printed).toContain('Nothing was asked for.')
      expect(printed).toContain('\x1b[32mrunning\x1b[39m')
      expect(code).toBe(3)
      expect((await world().fleet.get(id)).state).toBe('running')
    })

    test('shows how far it is, stops waiting with Ctrl-C, and gives the terminal back', async () => {
      const { id } = await world().running()
      const held = world().provider.holdAt('suspend')
      const { child, ended, says } = shell(onTerminal(`pause ${id}`), environmentOf(world()))
      await says(/pause active +\d/)
      child.stdin?.write('\x03')
      const { code, printed } = await ended
      expect(printed).toMatch(new RegExp(`${id}: you stopped waiting; the pause goes on`))
      expect(printed.lastIndexOf('\x1b[?25h')).toBeGreaterThan(printed.lastIndexOf('\x1b[?25l'))
      expect(code).toBe(130)
      held.open()
      await world().fleet.pause(id, { wait: '30s' })
      expect((await world().fleet.get(id)).state).toBe('suspended')
    })

    test('says nothing when whoever reads it has seen enough', async () => {
      await world().running()
      const script = `set -o pipefail; ${SANDMAN} ls --watch --json | head -c 1`
      const { ended, says } = shell(['bash', '-c', script], environmentOf(world()))
      await says(/\{/)
      await world().running()
      expect(await ended).toEqual({ code: 0, printed: '{' })
    })
  },
  { stores: ['postgres'] },
)
