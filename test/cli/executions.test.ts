import { expect, test } from 'vitest'
import { describeExecutions } from '../executions/setup.ts'
import { environmentOf, sandman, type Typed } from './setup.ts'

const UNKNOWN = `sbx_${'0'.repeat(26)}`

describeExecutions(
  'running commands from the command line',
  (world) => {
    const ask = (argv: string[], typed: Typed = {}) => sandman(argv, { env: environmentOf(world()), ...typed })

    test('exec prints byte for byte what a command prints, and exits as it does', async () => {
      const { id } = await world().running()
      const bytes = Buffer.from([0, 255, 27, 91, 50, 74, 10, 195])
      const commands: string[][] = []
      world().provider.starts = (agent) => {
        commands.push(agent.command)
        agent.write(bytes)
        agent.exit({ exitCode: 7 })
      }
      const printed = await ask(['exec', id, '--deadline', '5m', '--', 'sh', '-c', 'exit 7'])
      expect(printed).toMatchObject({ code: 7, err: '' })
      expect(printed.bytes.equals(bytes)).toBe(true)
      expect(commands).toEqual([['sh', '-c', 'exit 7']])

      // The same on a terminal, to which nothing of it may do anything.
      const [{ id: execution } = { id: '' }] = (await world().fleet.executions({ sandboxId: id })).items
      expect((await ask(['logs', execution], { terminal: {} })).out).toBe('\ufffd\n\ufffd')
      expect((await ask(['logs', execution, '--from', '6'])).bytes.equals(bytes.subarray(6))).toBe(true)
      expect((await ask(['logs', execution, '--from', '99'])).out).toBe('')
      const { out } = await ask(['show', execution])
      expect(out).toMatch(new RegExp(`^${execution}  failed: error\n`))
      expect(out).toMatch(/ {2}Command +sh -c 'exit 7'\n/)
    })

    test('a sandbox that sleeps is woken for it, unless that is not wanted', async () => {
      const { id } = await world().suspended()
      const refused = await ask(['exec', id, '--if-suspended', 'refuse', '--', 'true'])
      expect(refused).toMatchObject({ code: 125, out: '' })
      expect(refused.err).toMatch(/^sandman: /)
      world().provider.starts = (agent) => agent.exit()
      expect(await ask(['exec', id, '--', 'true'])).toMatchObject({ code: 0, out: '', err: '' })
    })

    test('what Sandman has to say is told apart from what the command says', async () => {
      expect(await ask(['exec', UNKNOWN, '--', 'true'])).toMatchObject({
        code: 125,
        err: expect.stringContaining(`There is no sandbox ${UNKNOWN}`),
      })
      const { id } = await world().running()
      world().provider.starts = (agent) => agent.exit({ exitCode: 137, oomKilled: true })
      const killed = await ask(['exec', id, '--', 'true'])
      expect(killed.code).toBe(137)
      expect(killed.err).toMatch(new RegExp(`^sandman: exe_\\w+ failed: oom_killed.* See "sandman why ${id}"\\.\n$`))
    })

    test('Ctrl-C leaves it running; logs goes on with it, and cancel stops it', async () => {
      const { id } = await world().running()
      world().provider.starts = (agent) => agent.write('one\n')
      const enough = new AbortController()
      const left = await ask(['exec', id, '--', 'work'], {
        signal: enough.signal,
        onPrint: ({ out }) => out === 'one\n' && enough.abort(),
      })
      expect(left).toMatchObject({ code: 130, out: 'one\n' })
      const [, execution = ''] =
        /you stopped listening; (exe_\w+) goes on\. .* Stop it: sandman cancel/.exec(left.err) ?? []
      expect((await ask(['logs', execution])).out).toBe('one\n')

      const following = ask(['logs', execution, '--follow'], {
        onPrint: ({ out }) => out === 'one\n' && world().provider.agentOf(id, execution).write('two\n'),
      })
      await expect.poll(async () => (await ask(['logs', execution])).out).toBe('one\ntwo\n')
      const late = await ask(['cancel', execution, '--no-wait'])
      expect(late).toMatchObject({ code: 0, out: expect.stringContaining(execution) })
      const { code, out } = await ask(['cancel', execution, '--json'])
      expect(code).toBe(0)
      expect(JSON.parse(out)).toMatchObject({ execution: { id: execution, status: 'cancelled' }, sandbox: { id } })
      expect(await following).toMatchObject({ code: 0, out: 'one\ntwo\n' })
    })

    test('with --detach it prints the id, or the document, and waits for nothing', async () => {
      const { id } = await world().running()
      const { out } = await ask(['exec', id, '--detach', '--', 'work'])
      expect(out).toMatch(/^exe_\w+\n$/)
      expect((await ask(['__ids', 'execution', out.trim().slice(0, -1)])).out).toBe(out)
      const asked = await ask(['exec', id, '-d', '--json', '--idempotency-key', id, '--', 'work'])
      const document = JSON.parse(asked.out)
      expect(document).toMatchObject({ execution: { sandbox_id: id, command: ['work'] }, sandbox: { id } })
      for (const execution of [out.trim(), document.execution.id]) await ask(['cancel', execution])
    })
  },
  { stores: ['postgres'] },
)
