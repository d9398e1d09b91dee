import { expect, test } from 'vitest'
import type { Execution, Sandbox } from '../../../src/index.ts'
import { judge } from '../../../src/sandbox/judge.ts'
import { STATES } from '../../../src/sandbox/states.ts'
import { actionsFor } from '../../../src/web/console/actions.ts'
import { placeAfter, placeBefore, placeIn } from '../../../src/web/console/paging.ts'

const abilities = [
  { name: 'able', canPause: true, canSnapshot: true },
  { name: 'plain', canPause: false, canSnapshot: false },
]
const cases = STATES.flatMap((state) =>
  abilities.flatMap(({ name }) => [false, true].map((busy) => [state, name, busy] as const)),
)

test.each(cases)(
  '%s, on a backend that is %s, busy %s: a button is open when its request does something',
  (state, backend, busy) => {
    const open = busy ? [{} as Execution] : []
    const actions = actionsFor({ sandbox: { state, backend } as Sandbox, open, abilities })
    for (const { verb, isOpen, says, asks, field } of actions) {
      const options = field ? { [field.name]: field.value } : {}
      const able = backend === 'able' || (verb !== 'pause' && verb !== 'snapshot')
      const { answer } = judge({ kind: verb, options }, state, { able, busy }, 'behind_other')
      expect([verb, isOpen]).toEqual([verb, answer === 'work' || answer === 'wait'])
      expect(says).toMatch(/^[A-Z].*\.$/)
      // Whatever loses something asks first.
      const loses = verb === 'kill' || verb === 'destroy' || field?.value === 'interrupt'
      expect([verb, asks !== undefined]).toEqual([verb, loses])
    }
    expect(new Set(actions.map(({ verb }) => verb)).size).toBe(5)
  },
)

test('there is a way back through pages, and an address never grows without end', () => {
  const id = (nth: number) => `sbx_${String(nth).padStart(26, '0')}`
  const read = (place: object) => placeIn((name) => (place as Record<string, string>)[name])
  let place = placeIn(() => undefined)
  expect(placeBefore(place)).toBeUndefined()
  for (let nth = 1; nth <= 100; nth++) place = read(placeAfter(place, id(nth)))
  expect(place.cursor).toBe(id(100))
  expect(new URLSearchParams(place).toString().length).toBeLessThan(800)
  for (let nth = 99; nth >= 80; nth--) {
    place = placeBefore(place) ?? {}
    expect(place.cursor).toBe(id(nth))
  }
  expect(placeBefore(place)).toBeUndefined() // from here on, the way back is to the newest
  expect(placeBefore(placeAfter({}, id(1)))).toBeUndefined()
  expect(read({ cursor: 'nonsense', trail: '<b>' })).toEqual({})
  expect(read({ cursor: id(1), trail: '<b>.-' })).toEqual({ cursor: id(1), trail: '-' })
})
