import { stripVTControlCharacters } from 'node:util'
import { describe, expect, test } from 'vitest'
import { worstOf } from '../../src/cli/exits.ts'
import { Frame } from '../../src/cli/frame.ts'
import { harmless } from '../../src/cli/harmless.ts'
import { wantsColours } from '../../src/cli/io.ts'
import { printJson, toWire } from '../../src/cli/json.ts'
import { layTable } from '../../src/cli/table.ts'
import { took } from '../../src/cli/took.ts'
import { cut, widthOf } from '../../src/cli/width.ts'
import { age } from '../../src/fleet/words.ts'
import { nearest } from '../../src/nearest.ts'
import { quoteWord } from '../../src/quote-word.ts'

describe('a table', () => {
  const columns = [{ title: 'ID' }, { title: 'STATE' }, { title: 'METADATA', canShrink: true }]
  const rows = [
    [{ text: 'sbx_1' }, { text: 'running', colour: 'green' as const }, { text: 'tenant=acme thread=123456789' }],
    [{ text: 'sbx_22' }, { text: 'gone' }, { text: '' }],
  ]

  test('is whole and aligned where nobody says how wide it may be', () => {
    expect(layTable(columns, rows)).toEqual([
      'ID      STATE    METADATA',
      'sbx_1   running  tenant=acme thread=123456789',
      'sbx_22  gone',
    ])
  })

  test('fits the terminal: what may be cut off is, ids are not', () => {
    for (const width of [40, 30, 26]) {
      const lines = layTable(columns, rows, { width })
      expect(Math.max(...lines.map(widthOf))).toBeLessThanOrEqual(width)
      expect(lines[1]).toMatch(/^sbx_1 {3}running {2}tenant.*…$/)
    }
    expect(layTable(columns, rows, { width: 10 })).toEqual(['ID      S…', 'sbx_1   r…', 'sbx_22  g…'])
  })

  test('takes from the widest first', () => {
    const two = [
      { title: 'A', canShrink: true },
      { title: 'B', canShrink: true },
    ]
    const [line] = layTable(two, [[{ text: 'a'.repeat(40) }, { text: 'b'.repeat(10) }]], {
      width: 32,
      hasTitles: false,
    })
    expect(line).toBe(`${'a'.repeat(19)}…  ${'b'.repeat(10)}`)
  })

  test('is as wide with colours as without', () => {
    const plain = layTable(columns, rows)
    const coloured = layTable(columns, rows, { hasColours: true })
    expect(coloured[1]).toContain('\x1b[32mrunning\x1b[39m')
    expect(coloured.map(stripVTControlCharacters)).toEqual(plain)
  })

  test('counts the places that letters take', () => {
    expect(['abc', '日本', 'é', 'e\u0301', '👩‍💻', '✅'].map(widthOf)).toEqual([3, 4, 1, 1, 2, 2])
    expect(cut('日本語', 4)).toBe('日…')
    expect(cut('abc', 3)).toBe('abc')
    expect(cut('abc', 0)).toBe('')
  })
})

describe('colours', () => {
  test.each([
    [true, {}, true],
    [false, {}, false],
    [true, { NO_COLOR: '1' }, false],
    [true, { NO_COLOR: '' }, true],
    [true, { TERM: 'dumb' }, false],
    [false, { FORCE_COLOR: '1' }, true],
    [true, { FORCE_COLOR: '0' }, false],
    [false, { FORCE_COLOR: '1', NO_COLOR: '1' }, true],
  ])('on a terminal: %s, with %j: %s', (isTerminal, env, has) => {
    expect(wantsColours(isTerminal, env)).toBe(has)
  })
})

test('text of others stands on one line and does nothing to a terminal', () => {
  expect(harmless('a\nb\tc\r')).toBe('a\\nb\\tc\\r')
  expect(harmless('\x1b]52;c;cm0=\x07\x9b2J')).toBe('\\e]52;c;cm0=\\u{7}\\u{9b}2J')
  expect(harmless('user\u202etxt.exe\u2028\u200b')).toBe('user\\u{202e}txt.exe\\u{2028}\\u{200b}')
  expect(harmless('half \ud83d, 日本 👩 é')).toBe('half �, 日本 👩 é')
})

test('ages are short', () => {
  expect([0, -5_000, 1_999, 61_000, 120_000, 7_200_000, 86_400_000, 200_000_000].map(age)).toEqual([
    '0s',
    '0s',
    '1s',
    '61s',
    '2m',
    '2h',
    '24h',
    '2d',
  ])
  expect([0, 1_234, 12_345, 180_000].map(took)).toEqual(['0.0s', '1.2s', '12s', '3m'])
})

test('of several ends the one that they share is told, and else that something is wrong', () => {
  expect(worstOf([])).toBe(0)
  expect(worstOf([0, 0])).toBe(0)
  expect(worstOf([0, 4, 4])).toBe(4)
  expect(worstOf([3, 4])).toBe(1)
})

test('a misspelt word is guessed only when it is near', () => {
  expect(nearest('pasue', ['pause', 'resume'])).toBe('pause')
  expect(nearest('x', ['ls', 'why'])).toBeUndefined()
  expect(nearest('frobnicate', ['pause', 'resume'])).toBeUndefined()
})

test('names become snake_case on the wire, and those of others stay', () => {
  const at = new Date(0)
  expect(
    toWire({ sandboxId: 1, ttl: { idleMs: null }, metadata: { tenantId: 2 }, items: [{ createdAt: at }] }),
  ).toEqual({
    sandbox_id: 1,
    ttl: { idle_ms: null },
    metadata: { tenantId: 2 },
    items: [{ created_at: at }],
  })
})

test('a document has nothing in it that a terminal obeys, and is the same document', () => {
  const value = { metadata: { a: '\x9b2J\x7f\u2028\u202e\x1b[2J日本' } }
  const text = printJson(value)
  expect(text).toMatch(/^[\x20-\x7e\n日本]+$/)
  expect(JSON.parse(text)).toEqual(value)
})

test('a command that is printed can be typed', () => {
  expect(['--limit', 'a=b', "it's", 'a b', '', '$(rm)'].map(quoteWord)).toEqual([
    '--limit',
    'a=b',
    "'it'\\''s'",
    "'a b'",
    "''",
    "'$(rm)'",
  ])
})

test('a frame takes back exactly what it has drawn, and gives the cursor back', async () => {
  let written = ''
  const frame = new Frame({
    isTerminal: true,
    hasColours: false,
    columns: () => 80,
    rows: () => 4,
    async write(data) {
      written += data
    },
  })
  await frame.draw(['one', 'two'])
  await frame.draw(['three'])
  await frame.draw(['1', '2', '3', '4', '5'])
  await frame.end()
  expect(written).toBe(
    '\x1b[?25l\x1b[?7lone\ntwo\n\x1b[2A\r\x1b[0Jthree\n\x1b[1A\r\x1b[0J1\n2\n… and 3 more lines\n\x1b[?7h\x1b[?25h',
  )
})
