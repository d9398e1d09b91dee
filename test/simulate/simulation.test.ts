import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { printed, simulate } from './support.ts'

describe('the simulation', () => {
  test('finds nothing wrong in a small piece of its seeds', async () => {
    const results = await simulate([1, 2, 3, 4, 5])
    expect(printed(results)).toEqual([])
    for (const { operations, executions, statements } of results) {
      expect(operations).toBeGreaterThan(10)
      expect(executions).toBeGreaterThan(0)
      expect(statements).toBeGreaterThan(300)
    }
    expect(results.reduce((sum, { faults }) => sum + (faults.crash ?? 0), 0)).toBeGreaterThan(0)
  })

  test('is the same again, happening for happening: in another process, and after other seeds', async () => {
    const [[alone], beside] = await Promise.all([simulate([11], { steps: 18 }), simulate([10, 11], { steps: 18 })])
    expect(beside.find(({ seed }) => seed === 11)?.hash).toBe(alone?.hash)
    expect(alone?.hash).toMatch(/^[0-9a-f]{16}$/)
    expect(beside.find(({ seed }) => seed === 10)?.hash).not.toBe(alone?.hash)
  })
})

describe('the simulation can fail: it notices', () => {
  const sabotage = (name: string) => path.join(import.meta.dirname, 'sabotage', `${name}.ts`)

  test('a worker that believes what is said of a checkpoint', async () => {
    const [result] = await simulate([2], { steps: 30, sabotage: sabotage('believes-every-checkpoint') })
    expect(result?.findings.map(({ rule }) => rule)).toContain('a checkpoint that is written down was whole')
  })

  test('a worker that writes although it was overtaken', async () => {
    const [result] = await simulate([4], { steps: 30, sabotage: sabotage('ignores-fences') })
    expect(result?.findings.map(({ rule }) => rule)).toContain('fences only grow, and no write carries an old one')
  })

  test('a fleet that takes its queue for the truth', async () => {
    const [result] = await simulate([4], { steps: 30, sabotage: sabotage('rings-once') })
    expect(result?.findings.map(({ rule }) => rule)).toContain('everything that was accepted is settled')
  })
})
