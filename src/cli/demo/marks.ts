import type { Mark, Verdict } from '../../demo/show.ts'
import type { Colour } from '../paint.ts'

/** Each has a shape of its own, so that it is told without its colour. */
export const MARKS: Record<Mark, { sign: string; colour: Colour | undefined }> = {
  did: { sign: '·', colour: 'dim' },
  fault: { sign: '!', colour: 'yellow' },
  good: { sign: '✓', colour: 'green' },
  bad: { sign: '✗', colour: 'red' },
}

/** What its column came to, in a word. */
export function wordOf(side: 'usual' | 'sandman', { asExpected }: Verdict): { text: string; colour: Colour } {
  if (!asExpected) return { text: side === 'usual' ? 'NOT SHOWN' : 'BROKEN', colour: 'yellow' }
  return side === 'usual' ? { text: 'FAILED', colour: 'red' } : { text: 'HELD', colour: 'green' }
}

export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`
}
