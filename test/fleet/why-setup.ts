import { expect } from 'vitest'
import type { Ending } from '../../src/db/ending.ts'
import { findWhy, type tellWhy } from '../../src/fleet/why.ts'
import type { Look } from '../../src/sandbox/findings.ts'
import { type LedgerTest, useLedger } from '../support/ledger.ts'

export const AT = '2026-03-01T12:00:00Z'

export const LOOKS: Look[] = [
  { at: AT, place: 'here', asked: 'box-1, which no list shows', saw: 'there is no such instance.' },
  { at: '2026-03-01T12:02:00+00:00', place: 'here', asked: 'box-1', saw: 'it is lost: it was deleted.' },
]

export const done = { status: 'succeeded', outcome: 'done' } as const

export type WhyTest = Pick<LedgerTest, 'ledger' | 'clock'> & {
  /** What is told of a sandbox, in words. */
  why(id: string): Promise<ReturnType<typeof tellWhy>>
  /** A worker begins, seconds pass, and it ends. */
  perform(operationId: string, ending: Ending): ReturnType<LedgerTest['ledger']['end']>
}

/** A ledger for each test, and what is told of it. */
export function useWhy(give: (given: WhyTest) => void): void {
  useLedger(({ ledger, clock }) => {
    const why: WhyTest['why'] = async (id) => {
      const found = await findWhy(ledger.db, { fleet: ledger.fleet, id })
      if (!found) throw new Error(`there is no ${id}`)
      expectWords(found)
      return found
    }
    const perform: WhyTest['perform'] = async (operationId, ending) => {
      const { attempt } = await ledger.begin(operationId)
      clock.advance(2_000)
      return ledger.end(attempt, ending)
    }
    give({ ledger, clock, why, perform })
  })
}

/** Whole sentences, and nothing in them that only a program would say. Ids are what they are. */
export function expectWords({ answer, story }: ReturnType<typeof tellWhy>): void {
  for (const text of [answer, ...story.map((line) => line.text)]) {
    expect(text).toMatch(/^(sbx_|[A-Z]).*[^.\s]\.$/)
    expect(text.replaceAll(/\b(sbx|op|ckpt|exe)_[0-9a-z]+/g, 'id')).not.toMatch(
      /undefined|null|NaN|object|Invalid|[_{}[\]]|\s\s/,
    )
  }
}

/** Ids are new each time; what counts is which of them are the same. */
export function named(text = ''): string {
  const seen = new Map<string, string>()
  return text.replaceAll(/\b(sbx|op|ckpt|exe)_[0-9a-f]+/g, (id, kind) => {
    const name = seen.get(id) ?? `${kind}_${seen.size + 1}`
    seen.set(id, name)
    return name
  })
}
