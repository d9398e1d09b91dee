import assert from 'node:assert/strict'
import { call, newId } from './bench.ts'
import type { Case } from './subject.ts'
import type { Suite } from './suite.ts'

/** All there is of a fleet. */
export function listCases(suite: Suite): Case[] {
  const cases = suite.own('lists', {
    async 'All that is there is listed once, with its owner, whatever is made and ended besides'(bench) {
      const owners = Array.from({ length: 3 }, () => ({ sandboxId: newId('sbx'), life: newId('op') }))
      const refs = await Promise.all(owners.map(async (owner) => (await bench.create({}, owner)).ref))
      const passing = await bench.create()
      await bench.backend.end(passing, call())
      const listed = (await bench.instances()).map(({ ref, sandboxId, life }) => ({ ref, sandboxId, life }))
      const expected = owners.map((owner, at) => ({ ref: refs[at] as string, ...owner }))
      const byRef = (a: { ref: string }, b: { ref: string }) => (a.ref < b.ref ? -1 : 1)
      assert.deepEqual(listed.sort(byRef), expected.sort(byRef))
    },

    async 'A fleet without sandboxes has an empty list'(bench) {
      assert.deepEqual(await bench.instances(), [])
      assert.deepEqual(await bench.checkpoints(), [])
    },
  })
  cases.push(
    ...suite.lent('lists', {
      async 'Every worker has the same place, which holds what was made there'(bench, { ref }) {
        const place = await bench.backend.lists.place(call())
        const other = await (await bench.another()).lists.place(call())
        assert.ok(place && place.name.length > 0)
        assert.equal(other?.name, place.name)
        assert.equal(place.holds(ref), true)
        assert.equal(other.holds(ref), true)
      },
    }),
  )
  return cases
}
