import { copyFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { findFreePort } from '../../src/embedded/service.ts'
import { isAlive } from '../../src/process-identity.ts'
import { createDatabase } from '../support/database.ts'
import { SandmanProcess } from '../support/sandman.ts'
import { uniqueFleet } from '../support/stores.ts'

/** `npm start` is `sandman dev` behind an install; the install has a test of its own. */
describe('sandman dev', () => {
  let folder: string
  const processes: SandmanProcess[] = []

  beforeEach(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-dev-'))
  })
  afterEach(async () => {
    for (const process of processes.splice(0)) {
      process.kill('SIGTERM')
      await process.exited
    }
    await rm(folder, { recursive: true, force: true })
  })

  function start(env: Record<string, string> = {}): SandmanProcess {
    const dev = new SandmanProcess(['dev'], { cwd: folder, env: { PORT: '0', ...env } })
    processes.push(dev)
    return dev
  }

  async function urlOf(dev: SandmanProcess): Promise<string> {
    const output = await dev.printed(/Ctrl-C stops it/)
    return /Console {5}(http:\S+)\//.exec(output)?.[1] as string
  }

  const databaseUrl = async () =>
    (JSON.parse(await readFile(path.join(folder, '.sandman', 'running.json'), 'utf8')) as { databaseUrl: string })
      .databaseUrl

  async function query<Row>(url: string, text: string): Promise<Row[]> {
    const client = new pg.Client(url)
    await client.connect()
    try {
      return (await client.query(text)).rows as Row[]
    } finally {
      await client.end()
    }
  }

  const partsOf = ({ lines }: SandmanProcess) =>
    lines.filter((line) => line.event === 'process.started').map((line) => line.pid as number)
  const canaries = async () =>
    query<{ id: string }>(await databaseUrl(), 'select id from sandman.canaries order by sent_at')

  test('brings everything up from nothing, proves it with a job, and stops on Ctrl-C without a trace; then picks up where it was, and takes its parts down with it when it is killed', async () => {
    const first = start()
    const url = await urlOf(first)
    expect(first.output).toMatch(/A job went through the queue and back in \d+ ms/)
    expect(await (await fetch(`${url}/readyz`)).json()).toEqual({
      status: 'ready',
      checks: { database: 'ok', queue: 'ok', migrations: 'ok' },
    })
    expect((await fetch(`${url}/queues`)).status).toBe(200)
    expect((await fetch(`${url}/v1`)).status).toBe(200)
    const parts = partsOf(first)
    expect(parts).toHaveLength(2)
    const before = await canaries()
    expect(before).toHaveLength(1)

    first.kill('SIGINT')
    expect(await first.exited).toEqual({ code: 0, signal: null })
    expect(parts.filter(isAlive)).toEqual([])
    expect(await readdir(path.join(folder, '.sandman'))).not.toContain('running.json')
    expect(await readdir(path.join(folder, '.sandman', 'postgres', 'data'))).not.toContain('postmaster.pid')

    const second = start()
    await urlOf(second)
    const after = await canaries()
    expect(after).toHaveLength(2)
    expect(after[0]).toEqual(before[0])

    const postmaster = path.join(folder, '.sandman', 'postgres', 'data', 'postmaster.pid')
    const all = [...partsOf(second), Number.parseInt(await readFile(postmaster, 'utf8'), 10)]
    expect(all.filter(isAlive)).toHaveLength(3)
    second.kill('SIGKILL')
    await expect.poll(() => all.filter(isAlive), { timeout: 30_000 }).toEqual([])
  })

  test('stops cleanly on Ctrl-C at whichever step of its start; then runs, refuses a second instance on the same data folder, and other commands find it', async () => {
    for (const moment of ['Starting Postgres', 'Starting web and worker']) {
      const dev = new SandmanProcess(['dev'], { cwd: folder, env: { PORT: '0' }, detached: true })
      await dev.printed(moment)
      process.kill(-(dev.child.pid as number), 'SIGINT') // as a terminal does: to the whole process group
      expect(await dev.exited).toEqual({ code: 0, signal: null })
      expect(dev.output).not.toContain('Ctrl-C stops it')
      expect(dev.output).not.toContain('    at ')
      expect(await readdir(path.join(folder, '.sandman'))).not.toContain('lock')
    }
    const first = start()
    const taken = new URL(await urlOf(first)).port
    // As by two times `npm start`: that the port is taken, too, would lead astray.
    const second = start({ PORT: taken })
    expect(await second.exited).toMatchObject({ code: 1 })
    expect(second.output).toContain(
      `sandman: Another Sandman (process ${first.child.pid}) is already running on ${path.join(folder, '.sandman')}`,
    )
    expect(second.output).not.toContain('    at ')

    const doctor = new SandmanProcess(['doctor'], { cwd: folder })
    expect(await doctor.exited).toMatchObject({ code: 0 })
    expect(doctor.output).toMatch(/ok +workers .* answered a job/)
  })

  test('says which port is taken, in one sentence, before anything is started', async () => {
    const port = await findFreePort()
    const holder = net.createServer().listen(port, '127.0.0.1')
    try {
      const dev = start({ PORT: String(port) })
      expect(await dev.exited).toMatchObject({ code: 1 })
      expect(dev.output).toBe(
        `sandman: Port ${port} on 127.0.0.1 is taken by another program: stop it, or set PORT to a free one (PORT=${port + 1}).\n`,
      )
      expect(await readdir(folder)).toEqual([])
    } finally {
      holder.close()
    }
  })

  test('says in one sentence that a part cannot be replaced, as after an upgrade of Node, and stops the others', async () => {
    const database = await createDatabase()
    try {
      const node = path.join(folder, 'node')
      await copyFile(process.execPath, node)
      const env = { PORT: '0', DATABASE_URL: database.url, SANDMAN_FLEET: uniqueFleet() }
      const dev = new SandmanProcess(['dev'], { cwd: folder, env, node })
      processes.push(dev)
      await urlOf(dev)
      await rm(node)
      process.kill(dev.lines.find((line) => line.process === 'worker')?.pid as number, 'SIGKILL')
      expect(await dev.exited).toMatchObject({ code: 1 })
      expect(dev.output).toContain(`sandman: The worker process could not be started: spawn ${node} ENOENT.`)
      expect(dev.output).not.toContain('    at ')
      expect(partsOf(dev).filter(isAlive)).toEqual([])
    } finally {
      await database.drop()
    }
  })

  test.each([
    ['both are named, uses both, and stops when it is told to', true, 'Redis'],
    [
      'only a database is named, keeps the queues in it, and replaces a part that is killed, until that goes too far',
      false,
      'Postgres',
    ],
  ])('when %s', async (_what, withRedis, store) => {
    const database = await createDatabase({ migrated: false })
    try {
      const fleet = uniqueFleet()
      // In a file this time, as most people keep them.
      await writeFile(
        path.join(folder, '.env'),
        `DATABASE_URL=${database.url}\nSANDMAN_FLEET=${fleet}\n${withRedis ? `REDIS_URL=${inject('redisUrl')}\n` : ''}`,
      )
      const dev = start()
      const url = await urlOf(dev)
      expect(dev.output).toContain(`queues on ${store}`)
      expect(await (await fetch(`${url}/readyz`)).json()).toMatchObject({ status: 'ready' })
      expect(await readdir(folder)).toEqual(['.env'])
      const schemas = await query<{ name: string }>(
        database.url,
        `select nspname as name from pg_namespace where nspname = 'bullmq'`,
      )
      expect(schemas).toHaveLength(withRedis ? 0 : 1)
      if (withRedis) return expect(await dev.stop()).toEqual({ code: 0, signal: null })
      const workers = () => dev.lines.filter((line) => line.event === 'process.started' && line.process === 'worker')
      for (let killed = 0; killed < 4; killed++) {
        await expect.poll(() => workers().length).toBe(killed + 1)
        process.kill(workers().at(-1)?.pid as number, 'SIGKILL')
      }
      expect(await dev.exited).toMatchObject({ code: 1 })
      expect(dev.output.match(/The worker process was ended by SIGKILL: starting another one/g)).toHaveLength(3)
      expect(dev.output).toContain('sandman: The worker process was ended by SIGKILL, 4 times within 60 s.')
    } finally {
      await database.drop()
    }
  })
})
