import fc from 'fast-check'

const TIME_LIMIT_MS = 120_000

/** For the test around a property. */
export const PROPERTY_TIMEOUT_MS = TIME_LIMIT_MS + 60_000

/**
 * Checks a property with random values: other ones in every run, so that the tests go on finding things. What fails is printed
 * with the command that replays exactly that.
 */
export async function check<Values>(property: fc.IAsyncProperty<[Values]>, { runs }: { runs: number }): Promise<void> {
  const { SANDMAN_SEED: seed, SANDMAN_PATH: path } = process.env
  const details = await fc.check(property, {
    numRuns: runs,
    ...(seed !== undefined && { seed: Number(seed) }),
    ...(path !== undefined && { path, endOnFailure: true }),
    // Looking for a smaller example has to end before the test does, so that there is a seed to print.
    interruptAfterTimeLimit: TIME_LIMIT_MS,
    markInterruptAsFailure: true,
  })
  if (!details.failed) return
  const replay = `SANDMAN_SEED=${details.seed} SANDMAN_PATH=${details.counterexamplePath ?? ''}`
  throw new Error(
    `Replay this with ${replay} npm test -- <this file>\n${await fc.asyncDefaultReportMessage(details)}`,
    {
      cause: details.errorInstance,
    },
  )
}
