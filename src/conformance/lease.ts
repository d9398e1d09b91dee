import type { Lease, Sighting } from '../backends/backend.ts'
import { fails, holds, shown } from './assertions.ts'
import { type Bench, call, until } from './bench.ts'
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
      assertEndsIn('create', 900_000, await bench.look(ref))
    },
  })
  const later = suite.lent('lease', {
    async 'It is set from now on, to less and to more, and is shown as it was set (incident G)'(bench, target) {
      for (const ttlMs of [300_000, 1_800_000]) {
        await leaseOf(bench).set(target, ttlMs, call())
        assertEndsIn('lease', ttlMs, await bench.look(target.ref))
      }
      const another = { ...target, incarnation: 'another' }
      await fails('lease of another incarnation', 'overtaken', leaseOf(bench).set(another, 300_000, call()))
    },

    async 'More than the provider allows is its maximum'(bench, target) {
      await leaseOf(bench).set(target, 400 * 86_400_000, call())
      const seen = await bench.look(target.ref)
      const isAhead = seen.is === 'running' && seen.endsAt && seen.endsAt.getTime() > Date.now()
      holds(`look after a lease of 400 days was expected to show an end that is still to come: ${shown(seen)}`, isAhead)
    },

    async 'A resume gives it the time that was asked for, and not what the provider likes (incident G)'(bench, target) {
      if (bench.backend.pausing === 'none') return
      const checkpointRef = await bench.suspend(target)
      await bench.pausing.resume({ ref: target.ref, checkpointRef }, { key: 'op_resume', ttlMs: 1_500_000 }, call())
      assertEndsIn('resume', 1_500_000, await bench.look(target.ref))
    },

    async 'When its time is over it sleeps, or is absent, and is shown so'(bench, target) {
      await leaseOf(bench).set(target, 1_000, call())
      const seen = await until('its time is over', async () => {
        const sighting = await bench.look(target.ref)
        return sighting.is === 'running' ? undefined : sighting
      })
      const isOver = seen.is === 'absent' || seen.is === 'suspended'
      holds(`look after its time was over was expected to be absent or suspended: ${shown(seen)}`, isOver)
      if (seen.is === 'suspended') await bench.resume(target.ref, seen.checkpointRef)
    },
  })
  return [...cases, ...later]
}

function leaseOf({ backend }: Bench): Lease {
  const { lease } = backend
  holds('the backend was said to have a lease, and its lease is "none"', lease !== 'none')
  return lease
}

function assertEndsIn(asked: string, ttlMs: number, seen: Sighting): void {
  const left = seen.is === 'running' && seen.endsAt ? seen.endsAt.getTime() - Date.now() : Number.NaN
  holds(
    `look was expected to show the ${ttlMs} ms that ${asked} was asked for, and shows ${left}: ${shown(seen)}`,
    Math.abs(left - ttlMs) < SLACK_MS,
  )
}
