import { afterAll, describe, test } from 'vitest'
import { conformance, type Subject } from '../../src/conformance/index.ts'

/** The whole suite, as tests of this runner. */
export function proveBackend(name: string, subject: Subject): void {
  const { cases, close } = conformance(subject)
  describe(name, () => {
    afterAll(close)
    for (const [about, ones = []] of Object.entries(Object.groupBy(cases, (each) => each.about)))
      describe(about, () => {
        for (const { name, run } of ones) test(name, { timeout: 120_000 }, run)
      })
  })
}
