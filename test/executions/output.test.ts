import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { createFleet } from '../../src/index.ts'
import { truncationMark } from '../../src/jobs/stream.ts'
import { bytesOf, describeExecutions, endOf, textOf, work } from './setup.ts'

describeExecutions(
  'the output of an execution',
  (world) => {
    test('reaches its readers as it is written, and they end with it', async () => {
      const { execution, agent } = await work(world())
      const reading = world().fleet.output(execution.id)[Symbol.asyncIterator]()
      for (const word of ['one ', 'two ', 'three']) {
        agent.write(word)
        const { value } = await reading.next()
        expect(Buffer.from(value?.bytes ?? []).toString()).toBe(word)
      }
      agent.exit()
      expect(await reading.next()).toMatchObject({ done: true })
      expect((await endOf(world(), execution)).status).toBe('succeeded')
    })

    test('is replayed from any byte, also while it goes on, and says where each piece is', async () => {
      const text = '0123456789'
      const { execution, agent } = await work(world())
      agent.write(text.slice(0, 4))
      await expect.poll(async () => (await world().fleet.execution(execution.id)).execution.outputBytes).toBe(4)
      agent.write(text.slice(4, 7))
      const followers = Array.from({ length: 12 }, (_, from) => textOf(world(), execution.id, from))
      await expect.poll(async () => (await world().fleet.execution(execution.id)).execution.outputBytes).toBe(7)
      agent.write(text.slice(7))
      agent.exit()
      expect(await Promise.all(followers)).toEqual(followers.map((_, from) => text.slice(from)))
      const places: [number, number][] = []
      for await (const { from, to } of world().fleet.output(execution.id, { from: 2 })) places.push([from, to])
      expect(places[0]?.[0]).toBe(2)
      expect(places.at(-1)?.[1]).toBe(10)
      for (const [nth, [from]] of places.entries()) expect(from).toBe(places[nth - 1]?.[1] ?? 2)
    })

    test('has many readers at once, and each gets all of it', async () => {
      const { execution, agent } = await work(world())
      const readers = Array.from({ length: 200 }, () => textOf(world(), execution.id))
      agent.write('for all of you')
      await expect.poll(async () => (await world().fleet.execution(execution.id)).execution.outputBytes).toBe(14)
      agent.exit()
      expect(new Set(await Promise.all(readers))).toEqual(new Set(['for all of you']))
    })

    test('is given up when the reader wants that, by its signal or by leaving', async () => {
      const { execution, agent } = await work(world())
      agent.write('x')
      const giving = new AbortController()
      const reading = (async () => {
        for await (const _piece of world().fleet.output(execution.id, { signal: giving.signal }))
          giving.abort(new Error('enough'))
      })()
      await expect(reading).rejects.toThrow('enough')
      for await (const _piece of world().fleet.output(execution.id)) break
      agent.exit()
      await endOf(world(), execution)
    })

    test('can be left while nothing is printed, as by somebody who closes a page', async () => {
      const { execution, agent } = await work(world())
      const reading = world().fleet.output(execution.id)[Symbol.asyncIterator]()
      const next = reading.next()
      expect(await reading.return?.()).toMatchObject({ done: true })
      expect(await next).toMatchObject({ done: true })
      const page = ReadableStream.from(world().fleet.output(execution.id))
      const reader = page.getReader()
      const waiting = reader.read()
      await reader.cancel()
      expect(await waiting).toMatchObject({ done: true })
      agent.exit()
      await endOf(world(), execution)
    })

    test('that is being read when the fleet is closed says so', async () => {
      const { execution, agent } = await work(world())
      agent.write('x')
      const other = createFleet(world().place)
      const reading = (async () => {
        for await (const _piece of other.output(execution.id)) void other.close()
      })()
      await expect(reading).rejects.toMatchObject({ code: 'fleet_closed' })
      agent.exit()
      await endOf(world(), execution)
    })

    test('that could not be kept is read again at once, and does not wait for the agent to say more', async () => {
      const { db, fleet } = world()
      const { execution, agent } = await work(world())
      await sql`create function sandman.fail_once() returns trigger language plpgsql as $$
        begin
          if nextval('sandman.failures') = 1 then raise exception 'so it was scripted'; end if;
          return new;
        end $$`.execute(db)
      await sql`create sequence sandman.failures`.execute(db)
      await sql`create trigger fails_once before insert on sandman.output for each row execute function sandman.fail_once()`.execute(
        db,
      )
      onTestFinished(async () => {
        await sql`drop trigger fails_once on sandman.output`.execute(db)
      })
      agent.write('what is your name?')
      await expect
        .poll(async () => (await fleet.execution(execution.id)).execution.outputBytes, { timeout: 20_000 })
        .toBe(18)
      agent.exit()
      await endOf(world(), execution)
      expect(await textOf(world(), execution.id)).toBe('what is your name?')
    })

    test('is kept up to a limit, with a mark where it ends; the execution goes on to its own end', async () => {
      const { execution, agent } = await work(world(), { outputBytesMax: 10 })
      agent.write('0123456')
      await expect.poll(async () => (await world().fleet.execution(execution.id)).execution.outputBytes).toBe(7)
      agent.write('789abc')
      await expect.poll(async () => (await world().fleet.execution(execution.id)).execution.truncated).toBe(true)
      agent.write('never seen')
      agent.exit({ exitCode: 5 })
      expect(await endOf(world(), execution)).toMatchObject({ status: 'failed', exitCode: 5, truncated: true })
      expect(await textOf(world(), execution.id)).toBe(`0123456789${truncationMark(10)}`)
    })

    test('that just fits is not truncated', async () => {
      const { execution, agent } = await work(world(), { outputBytesMax: 10 })
      agent.write('0123456789')
      agent.exit()
      expect(await endOf(world(), execution)).toMatchObject({ truncated: false, outputBytes: 10 })
      expect(await textOf(world(), execution.id)).toBe('0123456789')
    })

    test('that a slow database cannot take stays with the provider, and nothing of it is lost', async () => {
      const { db, provider } = world()
      const { execution, agent } = await work(world())
      const blocker = await db.startTransaction().execute()
      let isOver = false
      const release = async () => {
        if (!isOver) await blocker.rollback().execute()
        isOver = true
      }
      onTestFinished(release)
      await blocker.selectFrom('executions').select('id').where('id', '=', execution.id).forUpdate().execute()
      const all = Buffer.alloc(32 * 1024 * 1024, 'all work and no play makes jack a dull boy\n')
      agent.write(all)
      // Until what is read does not grow any more: the worker has what it may have, and the socket is full.
      let before = -1
      await expect
        .poll(
          async () => {
            const now = provider.streamed
            const isStill = now === before && now > 0
            before = now
            await sleep(100)
            return isStill
          },
          { timeout: 20_000 },
        )
        .toBe(true)
      expect(provider.streamed).toBeLessThan(all.length / 2)
      await release()
      agent.exit()
      await endOf(world(), execution)
      expect((await bytesOf(world(), execution.id)).equals(all)).toBe(true)
    })
  },
  { stores: ['postgres'] },
)
