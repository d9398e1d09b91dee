import { expect, test } from 'vitest'
import {
  GONE_REASONS,
  IN_FLIGHT_STATES,
  isSettled,
  moveBetween,
  movesInto,
  SETTLED_STATES,
  STATES,
  type State,
} from '../../src/sandbox/states.ts'

/** From the specification: where each state may lead. */
const LEADS_TO: Record<State, State[]> = {
  provisioning: ['running', 'suspended', 'gone'],
  running: ['pausing', 'snapshotting', 'killing', 'gone'],
  snapshotting: ['running', 'suspended', 'gone'],
  pausing: ['suspended', 'running', 'gone'],
  suspended: ['resuming', 'killing', 'gone'],
  resuming: ['running', 'suspended', 'gone'],
  killing: ['gone', 'running', 'suspended'],
  gone: ['provisioning'],
}

test.each(STATES.flatMap((from) => STATES.map((to) => ({ from, to }))))('$from to $to', ({ from, to }) => {
  expect(moveBetween(from, to) !== undefined).toBe(LEADS_TO[from].includes(to))
  expect(movesInto(to)[from]).toBe(moveBetween(from, to))
})

test('a sandbox comes into being as spawned or as adopted, and never in the middle of something', () => {
  const born = STATES.filter((state) => moveBetween(null, state) !== undefined)
  expect(born.toSorted()).toEqual(['provisioning', 'running', 'suspended'])
})

test('every state but gone leads to gone, and nothing leads from gone but a respawn', () => {
  for (const state of STATES) if (state !== 'gone') expect(moveBetween(state, 'gone')).toBe('ended')
  expect(STATES.filter((state) => moveBetween('gone', state))).toEqual(['provisioning'])
})

test('whatever is in flight can come to rest', () => {
  for (const state of IN_FLIGHT_STATES) {
    expect(isSettled(state)).toBe(false)
    expect(SETTLED_STATES.some((rest) => moveBetween(state, rest))).toBe(true)
  }
})

test('only a pause and a snapshot that was overtaken by one suspend a running sandbox', () => {
  const into = Object.entries(movesInto('suspended')).filter(([, name]) => name === 'paused')
  expect(into.map(([from]) => from).toSorted()).toEqual(['pausing', 'snapshotting'])
})

test('there is a reason for every way to be gone', () => {
  expect(GONE_REASONS).toHaveLength(new Set(GONE_REASONS).size)
  expect(GONE_REASONS).toEqual(
    expect.arrayContaining(['killed', 'destroyed', 'expired', 'pause_unsupported', 'checkpoint_missing', 'replaced']),
  )
})
