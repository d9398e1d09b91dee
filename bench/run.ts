import { say } from '../proof/report.ts'
import type { Bench, Row, Section } from './section.ts'

type Run = { results: Record<string, object>; rows: Row[]; failed?: Record<string, string> }

/** One section after the other. What is wrong with one is said, and does not keep the others from being measured. */
export async function runSections(sections: ReadonlyMap<string, Section>, bench: Bench): Promise<Run> {
  const run: Run = { results: {}, rows: [] }
  for (const [name, section] of sections) {
    say(name)
    try {
      const { json, rows } = await section(bench)
      run.results[name] = json
      run.rows.push(...rows)
    } catch (error) {
      run.failed = { ...run.failed, [name]: (error as Error).message }
      say(`${name} failed: ${(error as Error).stack}`)
    }
  }
  return run
}
