import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import type { Backend } from '../../src/backends/backend.ts'
import { openLocalBackend } from '../../src/backends/local/backend.ts'
import { conformance } from '../../src/conformance/index.ts'
import { shareCompiled } from '../support/compiled.ts'

/** A backend that keeps its promises but for one, as that of somebody who is just writing it. */
type Flaw = (backend: Backend, own: Backend, fleet: string) => Partial<Backend>

const isStranger = (fleet: string) => fleet.endsWith('-b')

test.each<[what: string, flaw: Flaw, promise: RegExp, told: RegExp]>([
  [
    'runs a command for another fleet',
    (_, own, fleet) => (isStranger(fleet) ? { run: (...asked) => own.run(...asked) } : {}),
    /^Another fleet can neither end, change nor enter it/,
    /^run by another fleet was expected to be refused, and was carried out$/,
  ],
  [
    'finds nothing',
    () => ({ find: async () => [] }),
    /^A sandbox is found by its own id/,
    /^find by the id of the first sandbox was expected to be \[".+"\], and was \[\]$/m, // and below it, in some releases of Node, how the two differ
  ],
  [
    'ends what it was not asked to',
    (backend) => ({
      end: async (target, call) =>
        backend.end({ ...target, incarnation: await incarnationOf(backend, target.ref) }, call),
    }),
    /^A call that was meant for another incarnation is overtaken/,
    /^end of another incarnation was expected to fail as overtaken, and answered nothing$/,
  ],
  [
    'begins what was given up',
    (backend) => ({ look: (ref) => backend.look(ref, { signal: AbortSignal.timeout(10_000) }) }),
    /^A call that was given up before it began/,
    /^look was given up, and was expected to fail with the reason of its signal; it answered \{"is":"absent"\}$/,
  ],
  [
    'calls an agent running that was never started',
    () => ({ agentStatus: async () => ({ is: 'running' }) }),
    /^One that was never started is none/,
    /^agentStatus of an agent that was never started was expected to be \{"is":"none"\}, and was \{"is":"running"\}$/m,
  ],
])('of a backend that %s, the kit says which call it was, and what it did', async (_what, flaw, promise, told) => {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-messages-'))
  let own: Backend | undefined
  const open = async (fleet: string) => {
    await shareCompiled(folder, fleet)
    const backend = await openLocalBackend({ folder, fleet })
    own ??= backend
    return { ...backend, ...flaw(backend, own, fleet) }
  }
  const claims = { pausing: 'memory', snapshots: true, lease: false, labelsAdopted: true } as const
  const { cases, close } = conformance({ open, claims: { ...claims, memoryLimit: 'untold', sidecar: 'none' } })
  try {
    const [tried, ...others] = cases.filter(({ name }) => promise.test(name))
    expect(others).toEqual([])
    await expect(tried?.run()).rejects.toThrow(told)
  } finally {
    await close()
    await rm(folder, { recursive: true, force: true })
  }
})

test('nothing in the kit is asserted without a word of what: only one file of it asserts by itself', async () => {
  const kit = path.resolve(import.meta.dirname, '../../src/conformance')
  const files = await readdir(kit)
  const texts = await Promise.all(
    files.map(async (file) => [file, await readFile(path.join(kit, file), 'utf8')] as const),
  )
  expect(texts.filter(([, text]) => text.includes('node:assert')).map(([file]) => file)).toEqual(['assertions.ts'])
})

async function incarnationOf(backend: Backend, ref: string): Promise<string | null> {
  const seen = await backend.look(ref, { signal: AbortSignal.timeout(10_000) })
  return seen.is === 'running' ? seen.incarnation : null
}
