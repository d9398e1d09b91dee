import { stripVTControlCharacters } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { widthOf } from '../../src/cli/width.ts'
import { describeWorld } from '../support/describe-world.ts'
import { startProxy } from '../support/proxy.ts'
import { environmentOf, sandman, type Typed } from './setup.ts'

const UNKNOWN = `sbx_${'0'.repeat(26)}`

describeWorld(
  'looking at a fleet from the command line',
  (world) => {
    const ask = (argv: string[], typed: Typed = {}) => sandman(argv, { env: environmentOf(world()), ...typed })
    const json = async (...argv: string[]) => JSON.parse((await ask([...argv, '--json'])).out)

    test('ls shows what there is: filtered, in pages, as a table, as ids and as a document', async () => {
      expect(await ask(['ls'])).toMatchObject({ code: 0, out: '', err: 'There is no sandbox in this fleet.\n' })
      const hostile = { tenant: 'acme', note: 'a\n\x1b[2Jb', 日本: '語' }
      const first = await world().running({ metadata: hostile, ttl: { idle: '90s' } })
      const second = await world().suspended({ metadata: { tenant: 'acme' } })
      const third = await world().running({ backend: 'plain' })
      await world().fleet.kill(third.id, { wait: '30s' })

      const all = await ask(['ls'])
      expect(all).toMatchObject({ code: 0, err: '' })
      const lines = all.out.trimEnd().split('\n')
      expect(lines[0]).toMatch(/^ID +STATE +BACKEND +SINCE +ACTIVE +WHY +METADATA$/)
      expect(lines[1]).toMatch(new RegExp(`^${third.id}  gone +plain +\\d+s +\\d+s +killed$`))
      expect(lines[2]).toMatch(new RegExp(`^${second.id}  suspended  test .* tenant=acme$`))
      expect(lines[3]).toMatch(new RegExp(`^${first.id}  running .* note=a\\\\n\\\\e\\[2Jb`))
      expect(lines.length).toBe(4)

      const narrow = await ask(['ls'], { terminal: { columns: 80, hasColours: true } })
      const shown = stripVTControlCharacters(narrow.out).trimEnd().split('\n')
      expect(shown.every((line) => widthOf(line) <= 80)).toBe(true)
      expect(shown[3]).toContain(first.id)
      expect(narrow.out).toContain('\u001b[32mrunning\u001b[39m')

      const ids = async (...argv: string[]) => (await ask(['ls', '--quiet', ...argv])).out.trimEnd().split('\n')
      expect(await ids()).toEqual([third.id, second.id, first.id])
      expect(await ids('--state', 'suspended')).toEqual([second.id])
      expect(await ids('--backend', 'plain')).toEqual([third.id])
      expect(await ids('--metadata', 'tenant=acme')).toEqual([second.id, first.id])
      expect(await ids('--id', first.id.slice(0, -1))).toContain(first.id)
      expect(await ids('--all')).toEqual([third.id, second.id, first.id])
      expect((await ask(['ls', '--state', 'killing'])).err).toBe('No sandbox is like that.\n')

      const page = await ask(['ls', '--limit', '1', '--metadata', 'tenant=acme', '-q'])
      expect(page.out).toBe(`${second.id}\n`)
      const next = /^There are more: sandman (.+)\n$/.exec(page.err)?.[1] as string
      expect((await ask([...next.split(' '), '-q'])).out).toBe(`${first.id}\n`)

      const document = await json('ls')
      expect(document).toMatchObject({
        items: [
          { id: third.id, state: 'gone', gone_reason: 'killed', operation: null },
          { id: second.id, checkpoint: { kind: 'pause', status: 'ready', provider_ref: expect.any(String) } },
          {
            id: first.id,
            metadata: hostile,
            ttl: { idle: '90s', hard: null },
            state_changed_at: expect.stringMatching(/T.*Z$/),
          },
        ],
        next_cursor: null,
      })
      expect(await json('ls', '--all')).toEqual(document)
      expect(await json('ls', '--all', '--state', 'killing')).toEqual({ items: [], next_cursor: null })
    })

    test('show tells of a sandbox, an operation or an execution all that there is', async () => {
      const { id } = await world().suspended({ metadata: { tenant: 'acme' } })
      const { operation } = await world().fleet.pause(id, { wait: '10s' })
      const sheet = await ask(['show', id])
      expect(sheet).toMatchObject({ code: 0, err: '' })
      expect(sheet.out).toMatch(new RegExp(`^${id}  suspended since .*\\n`))
      expect(sheet.out).toMatch(/ {2}Checkpoint +ckpt_\w+, pause, ready, 4 KiB, seen /)
      expect(sheet.out).toMatch(/ {2}Metadata +tenant=acme\n/)
      expect(sheet.out).toMatch(/Operations, the newest first\n {2}op_\w+ +pause +succeeded/)
      expect(sheet.out).toContain('It was put to sleep.')
      expect(await json('show', id)).toMatchObject({
        sandbox: { id, state: 'suspended' },
        operations: [{ kind: 'pause', status: 'succeeded' }, { kind: 'pause' }, { kind: 'spawn' }],
        executions: [],
        answer: expect.stringContaining('asleep'),
        story: expect.any(Array),
      })
      expect((await ask(['show', operation.id])).out).toMatch(
        new RegExp(`^${operation.id}  pause succeeded: already_done\n`),
      )
      expect(await json('show', operation.id)).toMatchObject({ operation: { id: operation.id }, sandbox: { id } })
    })

    test('what cannot be found ends with 4, and says where it was looked for', async () => {
      const env = { ...environmentOf(world()), SANDMAN_FLEET: 'elsewhere' }
      const { password, host } = new URL(world().place.databaseUrl)
      for (const argv of [
        ['show', UNKNOWN],
        ['show', UNKNOWN.replace('sbx', 'op')],
        ['show', UNKNOWN.replace('sbx', 'exe')],
        ['show', 'nonsense'],
        ['why', UNKNOWN],
        ['events', UNKNOWN],
        ['pause', UNKNOWN],
        ['logs', UNKNOWN.replace('sbx', 'exe')],
        ['cancel', UNKNOWN.replace('sbx', 'exe')],
      ]) {
        const { code, out, err } = await ask(argv, { env })
        expect({ argv, code, out }).toEqual({ argv, code: 4, out: '' })
        expect(err).toMatch(
          /^sandman: There is no \w+ .* in fleet elsewhere: check the id\. It was looked for in fleet elsewhere/,
        )
        expect(err).toContain(`(SANDMAN_FLEET) of the Postgres at ${host}/`)
        if (password.length >= 6) expect(err).not.toContain(password)
      }
    })

    test('events are printed in their order, and the next page is named', async () => {
      const { id } = await world().suspended()
      const { out, err } = await ask(['events', id, '--limit', '2'])
      expect(out.split('\n')[1]).toMatch(/^\d{4}-.*Z {2}spawn_began {2}provisioning {2,}op_/)
      const cursor = /--cursor (\d+)\n$/.exec(err)?.[1] as string
      expect((await ask(['events', id, '--cursor', cursor])).out).toMatch(/pause_began {2}running → pausing/)
      const { items, next_cursor } = await json('events', id)
      expect(items.map(({ type }: { type: string }) => type)).toEqual([
        'spawn_began',
        'spawned',
        'pause_began',
        'paused',
      ])
      expect({ next_cursor, event: items[0] }).toMatchObject({
        next_cursor: null,
        event: { sandbox_id: id, from: null },
      })
    })

    test('--watch prints what has changed, and ends with Ctrl-C', async () => {
      const { id } = await world().running()
      const enough = new AbortController()
      let isAsked = false
      const { code, out } = await ask(['ls', '--id', id, '--watch'], {
        signal: enough.signal,
        onPrint({ out: printed }) {
          if (printed.includes('  suspended  ')) enough.abort()
          else if (!isAsked) {
            isAsked = true
            void world().fleet.pause(id)
          }
        },
      })
      expect(code).toBe(0)
      const lines = out.trimEnd().split('\n')
      expect(lines.length).toBeLessThanOrEqual(3)
      expect(lines.at(0)).toContain(`${id}  running  test  `)
      expect(lines.at(-1)).toContain(`${id}  suspended  test  `)
    })

    test.each([['ls', '--id'], ['events']])(
      '%s --watch says that the database is away, and goes on when it is back',
      async (...command) => {
        const { id } = await world().running()
        const proxy = await startProxy(world().place.databaseUrl)
        onTestFinished(() => proxy.close())
        const enough = new AbortController()
        let moment: 'before' | 'away' | 'after' = 'before'
        const { code, out, err } = await ask([...command, id, '--watch'], {
          env: { ...environmentOf(world()), DATABASE_URL: proxy.url },
          signal: enough.signal,
          onPrint({ out: printed, err: complained }) {
            if (moment === 'before') {
              moment = 'away'
              void proxy.refuse()
            } else if (moment === 'away' && complained !== '') {
              moment = 'after'
              void proxy.heal().then(() => world().fleet.pause(id))
            } else if (/suspended/.test(printed)) enough.abort()
          },
        })
        expect(err).toMatch(/^sandman: Postgres at \S+ does not answer: /)
        expect([code, out.split('\n').filter((line) => line.includes('suspended')).length]).toEqual([0, 1])
      },
    )

    test('--watch draws in place on a terminal, and leaves it as it was; an operation that has settled ends it', async () => {
      const { id } = await world().running()
      const [{ id: operation } = { id: '' }] = (await world().fleet.operations(id)).items
      const { code, out } = await ask(['show', operation, '--watch'], { terminal: {} })
      expect(code).toBe(0)
      expect(out.startsWith(`\u001b[?25l\u001b[?7l${operation}  spawn succeeded: done\n`)).toBe(true)
      expect(out.endsWith('\u001b[?7h\u001b[?25h')).toBe(true)
      const lines = await ask(['show', operation, '--watch', '--json'])
      expect(lines.out.split('\n').length).toBe(2)
      expect(JSON.parse(lines.out)).toMatchObject({ operation: { id: operation, status: 'succeeded' } })
    })

    test('a completion is told the ids, and nothing when there is nobody to ask', async () => {
      const { id } = await world().running()
      expect((await ask(['__ids', 'sandbox', id.slice(0, -2)])).out).toContain(`${id}\n`)
      expect((await ask(['__ids', 'sandbox', ''])).out).toContain(`${id}\n`)
      expect(await ask(['__ids', 'execution'])).toMatchObject({ code: 0, out: '' })
      const nowhere = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/x' }
      expect(await sandman(['__ids', 'sandbox'], { env: nowhere })).toMatchObject({ code: 1, out: '', err: '' })
    })
  },
  { stores: ['postgres'] },
)
