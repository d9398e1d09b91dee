import assert from 'node:assert/strict'
import type { Lease, Sighting } from '../backends/backend.ts'
import { type Bench, call, fails, until } from './bench.ts'
import type { Case } from './subject.ts'
import type { Suite } from './suite.ts'

/** Clocks differ, and calls take time. */
const SLACK_MS = 20_000

/** A provider's own time-to-live. */
export function leaseCases(suite: Suite): Case[] {
  if (!suite.subject.claims.lease) return []
  const cases = suite.own('lease', {
    async 'A new sandbox ends when it was asked to'(bench) {
      const { ref } = await bench.create({}, { ttlMs: 900_000 })
      assertEndsIn(900_000, await bench.look(ref))
    },
  })
  const later = suite.lent('lease', {
    async 'It is set from now on, to less and to more, and is shown as it was set (incident G)'(bench, target) {
      for (const ttlMs of [300_000, 1_800_000]) {
        await leaseOf(bench).set(target, ttlMs, call())
        assertEndsIn(ttlMs, await bench.look(target.ref))
      }
      await fails('overtaken', leaseOf(bench).set({ ...target, incarnation: 'another' }, 300_000, call()))
    },

    async 'More than the provider allows is its maximum'(bench, target) {
      await leaseOf(bench).set(target, 400 * 86_400_000, call())
      const seen = await bench.look(target.ref)
      assert.ok(seen.is === 'running' && seen.endsAt && seen.endsAt.getTime() > Date.now())
    },

    async 'A resume gives it the time that was asked for, and not what the provider likes (incident G)'(bench, target) {
      if (bench.backend.pausing === 'none') return
      const checkpointRef = await bench.suspend(target)
      await bench.pausing.resume({ ref: target.ref, checkpointRef }, { key: 'op_resume', ttlMs: 1_500_000 }, call())
      assertEndsIn(1_500_000, await bench.look(target.ref))
    },

    async 'When its time is over it sleeps, or is absent, and is shown so'(bench, target) {
      await leaseOf(bench).set(target, 1_000, call())
      const seen = await until('its time is over', async () => {
        const sighting = await bench.look(target.ref)
        return sighting.is === 'running' ? undefined : sighting
      })
      assert.ok(seen.is === 'absent' || seen.is === 'suspended', JSON.stringify(seen))
      if (seen.is === 'suspended') await bench.resume(target.ref, seen.checkpointRef)
    },
  })
  return [...cases, ...later]
}

function leaseOf({ backend }: Bench): Lease {
  assert.notEqual(backend.lease, 'none')
  return backend.lease as Lease
}

function assertEndsIn(ttlMs: number, seen: Sighting): void {
  const left = seen.is === 'running' && seen.endsAt ? seen.endsAt.getTime() - Date.now() : Number.NaN
  assert.ok(Math.abs(left - ttlMs) < SLACK_MS, `${ttlMs} ms were asked for, and there are ${left}`)
}
