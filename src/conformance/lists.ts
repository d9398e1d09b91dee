import { holds, is } from './assertions.ts'
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
      is('the list of instances', listed.sort(byRef), expected.sort(byRef))
    },

    async 'A fleet without sandboxes has an empty list'(bench) {
      is('the list of instances of an empty fleet', await bench.instances(), [])
      is('the list of checkpoints of an empty fleet', await bench.checkpoints(), [])
    },
  })
  cases.push(
    ...suite.lent('lists', {
      async 'Every worker has the same place, which holds what was made there'(bench, { ref }) {
        const place = await bench.backend.lists.place(call())
        const other = await (await bench.another()).lists.place(call())
        holds('place was expected to have a name where a sandbox is, and has none', place && place.name.length > 0)
        holds('place was expected to be known to another worker, and is not', other)
        is('the place that another worker has', other.name, place.name)
        is('whether its place holds a sandbox that was made there', place.holds(ref), true)
        is('whether the place of another worker holds it', other.holds(ref), true)
      },
    }),
  )
  return cases
}
