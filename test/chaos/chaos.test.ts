import { rm } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Evidence, Flaw } from '../../chaos/checks/flaw.ts'
import { findFlaws } from '../../chaos/checks.ts'
import { DEFAULTS } from '../../chaos/options.ts'
import { isGood, type Result, summarize } from '../../chaos/result.ts'
import { type Chaos, runChaos } from '../../chaos/run.ts'
import { FLEET, type Site } from '../../chaos/site.ts'
import { makeUse, type Used } from './use.ts'

/** It ends a run that goes on for ever, and decides nothing. */
const RUN_MS_MAX = 600_000
const SHORT = { ...DEFAULTS, forMs: 6_000, workers: 2, webs: 1, clients: 4, killEveryMs: 2_500, seed: 20_261_118 }

let chaos: Chaos
let site: Site | undefined
let result: Result

beforeAll(async () => {
  const signal = new AbortController().signal
  chaos = await runChaos(SHORT, {
    signal,
    say: () => {},
    onOpen(opened) {
      site = opened
    },
  })
  result = await chaos.judge(await chaos.gather())
}, RUN_MS_MAX)

afterAll(() => site?.close({ keepLogs: false }), RUN_MS_MAX)

test('whatever is done to its parts, a fleet loses, doubles and leaks nothing, and everything settles', () => {
  const { flaws, histories } = result
  expect({ flaws, histories: [...histories] }).toEqual({ flaws: [], histories: [] })
  const summary = summarize(result)
  expect(isGood(summary)).toBe(true)
  expect(summary.accepted).toBeGreaterThan(0)
  expect(summary.settled).toBe(summary.accepted)
  expect(Object.keys(summary.faults)).toEqual(expect.arrayContaining(['postgres_killed', 'redis_killed']))
})

describe('the count goes up', () => {
  let used: Used

  beforeAll(async () => {
    used = await makeUse(chaos.site)
    expect(findFlaws(await chaos.gather())).toEqual([])
  }, RUN_MS_MAX)

  const flawsNow = async () => findFlaws(await chaos.gather())
  const of = (kind: Flaw['kind'], sandboxId: string) => expect.objectContaining({ kind, sandboxId })

  test('when something is left at a provider that no sandbox has', async () => {
    const sandboxId = `sbx_${'0'.repeat(26)}`
    const metadata = { sandman_fleet: FLEET, sandman_sandbox: sandboxId, sandman_life: `op_${'0'.repeat(26)}` }
    const made = await chaos.site.provider.ask('POST', '/v2/sandboxes', { templateID: 'base', metadata, timeout: 60 })
    expect(await flawsNow()).toEqual([of('leaked', sandboxId)])
    const { sandboxID } = made.body as { sandboxID: string }
    await chaos.site.provider.ask('DELETE', `/sandboxes/${sandboxID}`)
    expect(await flawsNow()).toEqual([])
  })

  test('when a checkpoint is removed, an instance vanishes, or an operation is deleted by hand', async () => {
    const sandboxes = path.join(chaos.site.root, 'data', 'sandboxes', FLEET)
    await rm(path.join(sandboxes, 'checkpoints', used.suspended.checkpointRef), { recursive: true })
    expect(await flawsNow()).toEqual([of('leaked', used.suspended.sandboxId)])
    await rm(path.join(sandboxes, 'instances', used.running.ref), { recursive: true })
    expect(await flawsNow()).toEqual(
      expect.arrayContaining([of('leaked', used.suspended.sandboxId), of('leaked', used.running.sandboxId)]),
    )
    const told = result.diary.told.find(({ status, kind }) => status < 300 && kind !== 'execute')
    await chaos.site.administer(
      `do $$ begin set local session_replication_role = replica; delete from sandman.operations where id = '${told?.id}'; end $$`,
    )
    expect(await flawsNow()).toEqual(expect.arrayContaining([of('lost', told?.sandboxId as string)]))
  })

  test('when what is written down is not what happened', async () => {
    const whole = await chaos.gather()
    const changed = (change: (evidence: Evidence) => void): Flaw['kind'][] => {
      const copy = structuredClone({ ...whole, diary: { told: whole.diary.told, unanswered: [] } })
      change(copy)
      const before = findFlaws(whole).map(({ says }) => says)
      return findFlaws(copy)
        .filter(({ says }) => !before.includes(says))
        .map(({ kind }) => kind)
    }
    const execution = ({ ledger }: Evidence) => ledger.executions.find(({ id }) => id === used.executionId) as Row
    type Row = Evidence['ledger']['executions'][number]
    const sandbox = ({ ledger }: Evidence) => ledger.sandboxes.find(({ id }) => id === used.suspended.sandboxId) as Box
    type Box = Evidence['ledger']['sandboxes'][number]

    const promised = (all: Evidence, cameTo: Partial<Told['cameTo']>) => {
      const sandboxId = used.suspended.sandboxId
      const { id, checkpoint_id: checkpointId } = all.ledger.operations.find(
        (one) => one.sandbox_id === sandboxId && one.kind === 'pause',
      ) as Evidence['ledger']['operations'][number]
      const told = { ...(all.diary.told[0] as Told), id, kind: 'pause', sandboxId } as const
      all.diary.told.push({ ...told, cameTo: { status: 'succeeded', outcome: 'done', checkpointId, ...cameTo } })
    }

    const [first = ''] = execution(whole).output.split('\n')
    const cases: [Flaw['kind'], (evidence: Evidence) => void][] = [
      ['lost', (all) => Object.assign(execution(all), { output: first })],
      ['wrong', (all) => Object.assign(execution(all), { output: `${first}\n${execution(all).output}` })],
      ['wrong', (all) => Object.assign(execution(all), { exit_code: 7, reason: 'error', status: 'failed' })],
      ['wrong', (all) => Object.assign(execution(all), { reason: 'instance_lost', status: 'failed' })],
      ['doubled', (all) => all.truth.starts.set(used.tag, 2)],
      ['leaked', (all) => all.truth.agents.push({ pid: 1, tag: used.tag })],
      ['leaked', (all) => all.truth.remains.push('.making-something~1')],
      ['stuck', (all) => Object.assign(execution(all), { ended_at: null })],
      ['lost', (all) => Object.assign(sandbox(all), { state: 'running' })],
      ['wrong', (all) => Object.assign(sandbox(all), { state: 'gone', gone_reason: 'instance_lost' })],
      ['doubled', (all) => all.diary.told.push({ ...(all.diary.told[0] as Told), id: used.executionId })],
      ['lost', (all) => promised(all, {})], // its checkpoint was removed above
      ['lost', (all) => promised(all, { checkpointId: null })],
      ['wrong', (all) => promised(all, { status: 'failed', outcome: null })],
      ['wrong', (all) => Object.assign(all, { undone: [{ sandboxId: undefined, says: 'kill' }] })],
      ['lost', (all) => all.diary.unanswered.push({ key: 'k', kind: 'pause', sandboxId: undefined })],
    ]
    for (const [kind, change] of cases) expect(changed(change)).toContain(kind)
  })
})

type Told = Evidence['diary']['told'][number]
