import net from 'node:net'
import { expect, test } from 'vitest'
import { describeWorld } from '../support/describe-world.ts'
import { environmentOf, sandman, type Typed } from './setup.ts'

const UNKNOWN = `sbx_${'0'.repeat(26)}`

describeWorld(
  'asking a fleet from the command line',
  (world) => {
    const ask = (argv: string[], typed: Typed = {}) => sandman(argv, { env: environmentOf(world()), ...typed })
    const stateOf = async (id: string) => (await world().fleet.get(id)).state

    test('verbs are asked of several at once, and say what came of each', async () => {
      const one = await world().running()
      const two = await world().running()
      const paused = await ask(['pause', one.id, two.id, one.id])
      expect(paused).toMatchObject({ code: 0, err: '' })
      const lines = paused.out.trimEnd().split('\n').sort()
      expect(lines.length).toBe(2)
      for (const [nth, { id }] of [one, two].entries())
        expect(lines[nth]).toMatch(new RegExp(`^${id}  suspended  pause done in \\d+\\.\\ds, ckpt_\\w+$`))
      expect((await ask(['pause', one.id])).out).toContain('pause was already so')
      const { code, out, err } = await ask(['resume', one.id, two.id, '--json'])
      expect({ code, err }).toEqual({ code: 0, err: '' })
      expect(JSON.parse(out)).toMatchObject({
        items: [one, two].map(({ id }) => ({
          id,
          operation: {
            sandbox_id: id,
            kind: 'resume',
            status: 'succeeded',
            outcome: 'done',
          },
          sandbox: { id, state: 'running' },
          error: null,
        })),
      })
    })

    test('what is refused ends with 3, what has failed with 1, and both say what to do next', async () => {
      const plain = await world().running({ backend: 'plain' })
      const refused = await ask(['pause', plain.id])
      expect(refused).toMatchObject({ code: 3, out: '' })
      expect(refused.err).toMatch(
        new RegExp(`^sandman: ${plain.id}: pause refused: .* \\(pause_unsupported\\) It is running\\. "sandman why`),
      )
      expect((await ask(['pause', plain.id, '--if-unsupported', 'kill'])).out).toMatch(/gone {2}pause done/)

      const asleep = await world().suspended()
      world().provider.always('resume', { kind: 'status', status: 503 })
      const failed = await ask(['resume', asleep.id])
      expect(failed).toMatchObject({ code: 1, out: '' })
      expect(failed.err).toMatch(
        /resume failed: .* \(sandbox_unreachable\) It is suspended\. It may be asked for again\.\n$/,
      )
    })

    test('one that is unknown keeps nobody from the others', async () => {
      const { id } = await world().running()
      const { code, out, err } = await ask(['pause', UNKNOWN, id])
      expect(code).toBe(4)
      expect(out).toContain(`${id}  suspended`)
      expect(err).toContain(`There is no sandbox ${UNKNOWN}`)
      const document = JSON.parse((await ask(['resume', UNKNOWN, id, '--json'])).out)
      expect(document.items).toMatchObject([
        { id: UNKNOWN, operation: null, sandbox: null, error: { code: 'sandbox_not_found' } },
        { id, operation: { status: 'succeeded' }, error: null },
      ])
    })

    test('what does not settle within the wait ends with 5, goes on, and says where to look', async () => {
      const { id } = await world().running()
      const held = world().provider.holdAt('suspend')
      await ask(['pause', id, '--no-wait'])
      await held.entered(1)
      const late = await ask(['pause', id, '--wait', '300ms'])
      expect(late).toMatchObject({ code: 5, out: '' })
      expect(late.err).toMatch(
        new RegExp(
          `^sandman: ${id}: not settled within 0\\.3s; the pause goes on \\(active\\)\\. See "sandman show op_\\w+ --watch"\\.\n$`,
        ),
      )
      const accepted = await ask(['pause', id, '--no-wait'])
      expect(accepted).toMatchObject({ code: 0, err: '' })
      expect(accepted.out).toMatch(new RegExp(`^${id}  pausing  pause active, op_\\w+\n$`))
      held.open()
      expect((await ask(['pause', id])).code).toBe(0)
    })

    test('Ctrl-C ends the waiting and not the work; on a terminal it was seen how far that is', async () => {
      const { id } = await world().running()
      const held = world().provider.holdAt('suspend')
      const enough = new AbortController()
      const { code, err } = await ask(['pause', id], {
        terminal: {},
        signal: enough.signal,
        onPrint({ err: printed }) {
          if (/pausing +pause active +\d/.test(printed)) enough.abort()
        },
      })
      expect(code).toBe(130)
      expect(err).toContain('Ctrl-C stops the waiting, and not the work.')
      expect(err).toMatch(new RegExp(`sandman: ${id}: you stopped waiting; the pause goes on .* See "sandman show op_`))
      expect(err.endsWith('\u001b[?7h\u001b[?25h')).toBe(true)
      held.open()
      expect((await ask(['pause', id])).out).toContain('suspended')
    })

    test('destroy and kill ask first: without a yes nothing happens, and without a terminal nobody is asked', async () => {
      const { id } = await world().running({ metadata: { tenant: 'acme' } })
      for (const verb of ['destroy', 'kill']) {
        const unasked = await ask([verb, id])
        expect(unasked).toMatchObject({ code: 2, out: '' })
        expect(unasked.err).toContain(`${verb} cannot ask here whether it is meant: say so with --yes`)
        expect(unasked.err).toContain(`sandman ${verb} --help explains it.`)
        const no = await ask([verb, id], { terminal: {}, answers: ['n'] })
        expect(no.code).toBe(3)
        expect(no.asked).toEqual([expect.stringMatching(new RegExp(`${verb} 1 sandbox\\? \\[y/N\\] $`))])
        expect(no.err).toContain(`${id}  running  test  tenant=acme`)
      }
      expect(await stateOf(id)).toBe('running')
      expect(await ask(['destroy', id, UNKNOWN], { terminal: {}, answers: ['y'] })).toMatchObject({
        code: 4,
        asked: [],
      })
      expect(await stateOf(id)).toBe('running')
      expect((await ask(['destroy', id], { terminal: {}, answers: ['y'] })).out).toContain('gone  destroy done')
      const other = await world().running()
      expect((await ask(['kill', other.id, '--yes'])).out).toContain('gone  kill done')
    })

    test('a lost sandbox is replaced when that is asked for, and a copy has its name', async () => {
      const { id } = await world().running()
      expect((await ask(['snapshot', id, '--name', 'before'])).out).toMatch(
        /running {2}snapshot done in .*, ckpt_\w+\n/,
      )
      expect((await world().fleet.checkpoints(id)).items[0]?.name).toBe('before')
      await ask(['kill', id, '--yes'])
      expect(await ask(['resume', id])).toMatchObject({ code: 3 })
      expect((await ask(['resume', id, '--if-lost', 'respawn'])).out).toContain('resume replaced by a fresh one')
    })

    test('an idempotency key makes a request that is sent twice one', async () => {
      const { id } = await world().running()
      const operations = []
      for (const argv of [
        ['pause', id],
        ['pause', id],
      ]) {
        const { out } = await ask([...argv, '--idempotency-key', `key of ${id}`, '--json'])
        operations.push(JSON.parse(out).items[0].operation.id)
      }
      expect(operations[0]).toBe(operations[1])
      expect(await ask(['resume', id, '--idempotency-key', `key of ${id}`])).toMatchObject({ code: 3, out: '' })
    })

    test('a queue that is away costs time and not the request, and that is said', async () => {
      const { id } = await world().running()
      const env = { ...environmentOf(world()), REDIS_URL: 'redis://127.0.0.1:1' }
      const { code, out, err } = await ask(['pause', id, '--no-wait'], { env })
      expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining('pausing  pause active') })
      expect(err).toMatch(/^sandman: the queue did not answer \(REDIS_URL\)\. What was accepted is safe/)
    })

    test('what the library cannot read is wrong usage', async () => {
      const { id } = await world().running()
      expect(await ask(['snapshot', id, '--name', 'a b'])).toMatchObject({ code: 2, out: '' })
      expect(await ask(['spawn', '--backend', 'lokal'])).toMatchObject({
        code: 2,
        err: expect.stringContaining('lokal'),
      })
      expect(await ask(['ls', '--limit', '100000'])).toMatchObject({ code: 2 })
      for (const verb of [['ls'], ['spawn', '--backend', 'test']])
        expect(await ask([...verb, '--metadata', '__proto__=x'])).toMatchObject({
          code: 2,
          out: '',
          err: expect.stringContaining('__proto__'),
        })
    })

    test('a database that hangs keeps nobody who has had enough', async ({ onTestFinished }) => {
      const sockets: net.Socket[] = []
      const enough = new AbortController()
      const deaf = net.createServer((socket) => {
        sockets.push(socket.on('error', () => {}))
        enough.abort()
      })
      await new Promise<void>((resolve) => deaf.listen(0, '127.0.0.1', resolve))
      onTestFinished(() => {
        for (const socket of sockets) socket.destroy()
        deaf.close()
      })
      const env = { DATABASE_URL: `postgres://u@127.0.0.1:${(deaf.address() as net.AddressInfo).port}/x` }
      const { code, out, err } = await sandman(['ls'], { env, signal: enough.signal })
      expect({ code, out }).toEqual({ code: 130, out: '' })
      expect(err).toMatch(/^sandman: interrupted before anybody answered\./)
    })

    test('a database that is away is said in a sentence', async () => {
      const env = { DATABASE_URL: 'postgres://u:swordfish@127.0.0.1:1/x' }
      const { code, out, err } = await sandman(['ls'], { env })
      expect({ code, out }).toEqual({ code: 1, out: '' })
      expect(err).toMatch(/^sandman: Postgres at 127\.0\.0\.1:1\/x does not answer: .*\n$/)
      expect(err).not.toContain('swordfish')
    })
  },
  { stores: ['postgres'] },
)
