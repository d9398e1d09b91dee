import { afterAll, describe, test } from 'vitest'
import { conformance, type Subject } from '../../src/conformance/index.ts'

/** The whole suite, as tests of this runner; or what there is about a few things, of a backend that was proven already. */
export function proveBackend(name: string, subject: Subject, only?: string[]): void {
  const { cases: all, close } = conformance(subject)
  const cases = all.filter(({ about }) => !only || only.includes(about))
  describe(name, () => {
    afterAll(close)
    for (const [about, ones = []] of Object.entries(Object.groupBy(cases, (each) => each.about)))
      describe(about, () => {
        for (const { name, run } of ones) test(name, { timeout: 120_000 }, run)
      })
  })
}
