import { expect, test } from 'vitest'
import type { Agent, Backend } from '../../../src/backends/backend.ts'
import { CALL, gated, onEngine, setup, sh, wired } from './setup.ts'

/** Reads until it breaks, or has come to its end. */
async function hearUntilItBreaks(backend: Backend, agent: Agent, from?: string) {
  const heard: Uint8Array[] = []
  let cursor = from
  let isLast = false
  try {
    for await (const piece of backend.attach(agent, cursor, CALL)) {
      heard.push(piece.bytes)
      cursor = piece.cursor
      isLast = piece.isLast ?? false
    }
  } catch (error) {
    expect(error).toMatchObject({ type: 'sandbox_unreachable' })
  }
  return { bytes: Buffer.concat(heard), cursor, isLast }
}

onEngine(() => {
  test('bytes are what they were: also those that are no text, and lines that the engine splits within a letter', async () => {
    const bench = await setup()
    const octal = Array.from({ length: 256 }, (_, byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')
    const script = `printf '${octal}\\n'; printf x; i=0; while [ $i -lt 3000 ]; do printf 'äöüäöü'; i=$((i+1)); done; echo; echo short; printf end`
    const target = await bench.create({ agent: { command: gated(script) } })
    await bench.go(target)
    const all = Buffer.concat([
      Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)),
      Buffer.from(`\nx${'äöüäöü'.repeat(3_000)}\nshort\nend`),
    ])
    expect((await bench.hear({ ...target, key: undefined })).equals(all)).toBe(true)
  })

  test('cut after any number of bytes, it goes on from its cursor, losing and doubling nothing (incident R)', async () => {
    const bench = await setup()
    const { wire, backend } = await wired(bench)
    const script =
      'echo one; echo two ü >&2; printf "thr"; sleep 0.1; printf "ee\\n"; echo; printf "four, without an end"'
    const target = await bench.create({ agent: { command: gated(script) } })
    const agent = { ...target, key: undefined }
    await bench.go(target)
    const whole = await bench.hear(agent)
    expect(whole.toString().split('\n').toSorted()).toEqual(['', 'four, without an end', 'one', 'three', 'two ü'])
    const isLog = ({ path }: { path: string }) => path.includes('/logs?')
    let cuts = 0
    // Within a frame every byte is tried in log.test.ts.
    for (let bytes = 1; ; bytes += 5) {
      wire.fail({ kind: 'cut after', bytes }, isLog)
      const broken = await hearUntilItBreaks(backend, agent)
      wire.heal()
      if (broken.isLast) break
      cuts++
      const rest = await hearUntilItBreaks(backend, agent, broken.cursor)
      expect(Buffer.concat([broken.bytes, rest.bytes]).toString(), `cut after ${bytes} bytes`).toBe(whole.toString())
      expect(rest.isLast).toBe(true)
    }
    expect(cuts).toBeGreaterThan(20)
  })

  test('what is said is heard at once, and who listens is let go when the sandbox sleeps', async () => {
    const bench = await setup()
    const target = await bench.create({ agent: { command: sh('mkfifo /in; exec cat <>/in') } })
    const pieces = bench.backend.attach({ ...target, key: undefined }, undefined, CALL)[Symbol.asyncIterator]()
    await expect.poll(() => bench.run(target, 'ls /')).toContain('in\n')
    for (const line of ['one\n', 'two\n']) {
      const next = pieces.next()
      await bench.run(target, `printf '${line}' > /in`)
      expect(Buffer.from((await next).value.bytes).toString()).toBe(line)
    }
    await pieces.return?.()
    await bench.suspend(target)
    expect((await bench.hear({ ...target, key: undefined })).toString()).toBe('one\ntwo\n')
  })

  test('a last piece comes only when the container has ended and its log was read after that', async () => {
    const bench = await setup()
    const target = await bench.create({ agent: { command: gated('seq 20000; echo end') } })
    await bench.go(target)
    const { bytes, isLast } = await hearUntilItBreaks(bench.backend, { ...target, key: undefined })
    expect(isLast).toBe(true)
    expect(bytes.toString().split('\n').length).toBe(20_002)
    expect(bytes.toString().endsWith('20000\nend\n')).toBe(true)
  })
})
