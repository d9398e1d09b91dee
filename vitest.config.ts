import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Short to read and long to run: begun first, so that none of them runs alone at the end. */
const LONG = [
  'conformance/docker',
  'jobs/crash-postgres',
  'incidents/t-redis-was-flushed',
  'incidents/local',
  'executions/local',
  'fleet/shutdown',
  'db/every-schedule',
  'fleet/dev',
  'embedded/postgres',
  'jobs/crash-redis',
  'conformance/docker-disk',
  'backends/docker/disk',
  'conformance/local',
  'conformance/e2b',
  'conformance/agentuity',
]

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const nth = LONG.findIndex((name) => moduleId.endsWith(`test/${name}.test.ts`))
      return nth === -1 ? LONG.length : nth
    }
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: 'test/support/global-setup.ts',
    // Tests wait for events and not for time; this only ends one that waits for something that never comes.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
    // Much of a test's time is spent waiting for processes, so two cores carry more than two files.
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
  },
})
