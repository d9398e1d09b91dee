import { expect, test } from 'vitest'
import { Spec } from '../../src/backends/spec.ts'

const withEnv = (env: Record<string, string>) => Spec.safeParse({ agent: { command: ['true'], env } }).success
const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_none, at) => [`NAME_${at}`, '']))

test('an environment is no larger than a system takes', () => {
  expect(withEnv({ LARGE: 'x'.repeat(65_536) })).toBe(true)
  expect(withEnv({ LARGE: 'x'.repeat(65_537) })).toBe(false)
  expect(withEnv(many(256))).toBe(true)
  expect(withEnv(many(257))).toBe(false)
})
