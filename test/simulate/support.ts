import { inject } from 'vitest'
import type { RunResult } from '../../simulate/run.ts'
import { runSeeds, type SeedsOptions } from '../../simulate/seeds.ts'
import { TEMPLATE_DATABASE } from '../support/database.ts'

/** Runs in one process of their own, because time is not what it was in there. */
export async function simulate(
  seeds: readonly number[],
  more: Pick<SeedsOptions, 'steps' | 'sabotage' | 'untilFound'> = {},
): Promise<RunResult[]> {
  const place = { postgresUrl: inject('postgresUrl'), template: TEMPLATE_DATABASE }
  const { results, failures } = await runSeeds({ ...place, seeds, processes: 1, ...more })
  if (failures.length > 0) throw new Error(failures.map(({ seed, failure }) => `seed ${seed}: ${failure}`).join('\n'))
  return results
}

/** All that was found, in a form that says what to do about it. */
export function printed(results: readonly RunResult[]): string[] {
  return results.flatMap(({ seed, findings }) =>
    findings.map(({ rule, about, says }) => `npm run simulate -- --seed ${seed}: ${rule}: ${about}: ${says}`),
  )
}
