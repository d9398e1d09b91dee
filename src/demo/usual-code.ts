import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Spec } from '../backends/spec.ts'
import type { Driver } from './usual-driver.ts'

type UsualRow = {
  id: string
  status: 'running' | 'pausing' | 'suspended' | 'killed'
  ref: string
  checkpoint_ref: string | null
  turn: 'working' | 'ended' | null
  /** When an agent that says nothing is given up. */
  silent_until: Date | null
}

const TABLE = `create table if not exists usual_sandboxes (id text primary key, status text not null, ref text not null,
  checkpoint_ref text, turn text, silent_until timestamptz)`

const WAIT_MS = 50
/** A minute, where this was met. */
const ATTACH_AGAIN_MS = 400

/**
 * The lifecycle of a sandbox as most projects have it: read the row, call the provider, write the row. Nothing here is careless:
 * each line is what one writes who has not met these incidents yet, and some were written after the first of them.
 */
export class UsualCode {
  readonly #pool: pg.Pool
  readonly #driver: Driver
  /** How many wait for a pause to be over. */
  waiting = 0

  constructor(pool: pg.Pool, driver: Driver) {
    this.#pool = pool
    this.#driver = driver
  }

  static async migrate(pool: pg.Pool): Promise<void> {
    await pool.query(TABLE)
  }

  async create(spec: Spec): Promise<UsualRow> {
    const id = `sandbox-${randomUUID().slice(0, 8)}`
    const ref = await this.#driver.create(id, spec)
    await this.#pool.query(`insert into usual_sandboxes (id, status, ref) values ($1, 'running', $2)`, [id, ref])
    return this.row(id)
  }

  async pause(id: string): Promise<void> {
    const { ref } = await this.row(id)
    await this.#set(id, 'pausing', null)
    const checkpointRef = await this.#driver.pause(ref)
    await this.#set(id, 'suspended', checkpointRef)
  }

  async resume(id: string): Promise<void> {
    const { ref, checkpoint_ref } = await this.row(id)
    try {
      await this.#driver.resume(ref, checkpoint_ref)
    } catch {
      throw new Error('Could not resume the sandbox')
    }
    await this.#set(id, 'running', null)
  }

  /** Not what was just paused: its user wants that back. */
  async kill(id: string): Promise<'killed' | 'already done'> {
    if (await this.#waitedForPause(id)) return 'already done'
    await this.#driver.stop((await this.row(id)).ref)
    await this.#set(id, 'killed', null)
    return 'killed'
  }

  async snapshot(id: string): Promise<'taken' | 'already done'> {
    if (await this.#waitedForPause(id)) return 'already done'
    await this.#driver.snapshot((await this.row(id)).ref)
    return 'taken'
  }

  /** A message of the user, for the agent. */
  async send(id: string, command: string): Promise<string> {
    const { status, ref } = await this.row(id)
    if (status === 'suspended') await this.resume(id)
    return this.#driver.run(ref, command)
  }

  /** Reads what the agent prints, until it has ended. */
  async follow(id: string, { onBreak, signal }: { onBreak: () => void; signal: AbortSignal }): Promise<void> {
    const { ref } = await this.row(id)
    await this.#pool.query(`update usual_sandboxes set turn = 'working' where id = $1`, [id])
    for (;;) {
      await this.#heard(id)
      for await (const _ of this.#driver.output(ref, signal)) await this.#heard(id)
      // Connections break. As long as the sandbox runs there is more to come.
      if (!(await this.#driver.isRunning(ref))) break
      onBreak()
      await sleep(ATTACH_AGAIN_MS, undefined, { signal })
    }
    await this.#pool.query(`update usual_sandboxes set turn = 'ended' where id = $1`, [id])
  }

  async row(id: string): Promise<UsualRow> {
    const { rows } = await this.#pool.query<UsualRow>('select * from usual_sandboxes where id = $1', [id])
    if (!rows[0]) throw new Error(`there is no sandbox ${id}`)
    return rows[0]
  }

  async #waitedForPause(id: string): Promise<boolean> {
    if ((await this.row(id)).status !== 'pausing') return false
    this.waiting++
    while ((await this.row(id)).status === 'pausing') await sleep(WAIT_MS)
    this.waiting--
    return true
  }

  async #set(id: string, status: UsualRow['status'], checkpointRef: string | null): Promise<void> {
    const values = [id, status, checkpointRef]
    await this.#pool.query('update usual_sandboxes set status = $2, checkpoint_ref = $3 where id = $1', values)
  }

  async #heard(id: string): Promise<void> {
    await this.#pool.query(`update usual_sandboxes set silent_until = now() + interval '10 minutes' where id = $1`, [
      id,
    ])
  }
}
