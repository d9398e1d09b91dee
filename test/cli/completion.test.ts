import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sandman } from './setup.ts'

const execute = promisify(execFile)
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-completion-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const script = async (shell: string) => (await sandman(['completion', shell])).out

/** What bash offers when somebody presses Tab behind each of these lines. */
async function offered(lines: string[]): Promise<string[][]> {
  const file = path.join(folder, 'ask.bash')
  const ask = lines.map((line) => {
    const words = line.split(' ').map((word) => `'${word}'`)
    return `COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}; _sandman; echo "\${COMPREPLY[*]}"`
  })
  // Stands for the real one, which looks into a database.
  const fleet = 'sandman() { [ "$1 $2" = "__ids sandbox" ] && echo "sbx_1 sbx_2"; [ "$2" = execution ] && echo exe_1; }'
  await writeFile(file, `set -u\n${await script('bash')}\n${fleet}\n${ask.join('\n')}\n`)
  const { stdout, stderr } = await execute('bash', ['--norc', file])
  expect(stderr).toBe('')
  return stdout.split('\n').map((line) => line.split(' ').filter((word) => word !== ''))
}

test('bash completes commands, options, values and ids', async () => {
  const [commands, verbs, options, all, state, backend, queue, shell, ids, some, executions, help, value, rest] =
    await offered([
      'sandman ',
      'sandman re',
      'sandman ls --st',
      'sandman ls ',
      'sandman ls --state s',
      'sandman spawn --backend ',
      'sandman worker --queues re',
      'sandman completion ',
      'sandman pause ',
      'sandman pause sbx_1 sbx_2',
      'sandman logs ',
      'sandman help ex',
      'sandman ls --limit ',
      'sandman exec sbx_1 -- compge',
    ])
  expect(commands).toEqual(expect.arrayContaining(['ls', 'pause', 'doctor', '--help']))
  expect(commands).not.toContain('__ids')
  expect(verbs).toEqual(['resume'])
  expect(options).toEqual(['--state'])
  expect(all).toEqual(expect.arrayContaining(['--state', '--watch', '-w', '--help']))
  expect(state).toEqual(['suspended', 'snapshotting'])
  expect(backend).toContain('docker')
  expect(queue).toEqual(['resume', 'reaper'])
  expect(shell).toEqual(['bash', 'zsh', 'fish'])
  expect(ids).toEqual(['sbx_1', 'sbx_2'])
  expect(some).toEqual(['sbx_2'])
  expect(executions).toEqual(['exe_1'])
  expect(help).toEqual(['exec'])
  expect(value).toEqual([])
  expect(rest).toEqual(['compgen'])
})

test('bash declares it for sandman, and nothing else', async () => {
  const { stdout } = await execute('bash', ['--norc', '-c', `${await script('bash')}\ncomplete -p`])
  expect(stdout).toBe('complete -o default -F _sandman sandman\n')
})

test.each(['zsh', 'fish'])('%s is given a script that it can read, if it is here', async (shell) => {
  const file = path.join(folder, `sandman.${shell}`)
  const text = await script(shell)
  expect(text).toContain('suspended')
  expect(text).toContain('__ids')
  await writeFile(file, text)
  await execute(shell, ['-n', file]).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
})
