import { readFileSync } from 'node:fs'
import path from 'node:path'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { age } from '../../../src/fleet/words.ts'
import { span } from '../../../src/web/console/times.ts'

const script = path.join(import.meta.dirname, '../../../src/web/console/assets/console.js')

test('the script goes on counting an age in the words that the page was made with', () => {
  const [source] = /^function age\(ms\) \{[\s\S]+?^\}/m.exec(readFileSync(script, 'utf8')) ?? []
  const counted = runInNewContext(`(${source})`) as typeof age
  const ages = [-5_000, 0, 999, 59_000, 119_999, 120_000, 7_199_000, 7_200_000, 172_799_000, 172_800_000, 9e10]
  expect(ages.map((ms) => counted(ms))).toEqual(ages.map(age))
})

test('a span is rounded to what it is shown in, and never to 60 of a unit', () => {
  const spans = [0, 999.4, 999.5, 59_949, 59_950, 119_700, 3_599_499, 3_599_500]
  expect(spans.map(span)).toEqual(['0 ms', '999 ms', '1.0 s', '59.9 s', '1 min 0 s', '2 min 0 s', '59 min 59 s', '59m'])
})
