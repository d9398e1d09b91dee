import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Short to read and long to run: begun first, so that none of them runs alone at the end. */
const LONG = [
  'chaos/chaos',
  'package/package',
  'demo/demo',
  'conformance/docker',
  'incidents/t-redis-was-flushed',
  'fleet/shutdown',
  'fleet/create-worker',
  'jobs/crash-postgres',
  'conformance/local',
  'fleet/dev',
  'conformance/kubernetes-pod',
  'conformance/e2b',
  'executions/workers',
  'conformance/agent-sandbox',
  'conformance/agent-sandbox-others',
  'conformance/agentuity',
  'incidents/local',
  'executions/local',
  'jobs/crash-redis',
  'backends/local/agents',
  'incidents/r-lines-lost-or-doubled',
  'backends/local/pausing',
  'incidents/agentuity',
  'simulate/simulation',
  'web/console/screenshots',
  'backends/docker/disk',
  'conformance/docker-disk',
  'web/console/story',
  'incidents/kubernetes-pod',
  'embedded/postgres',
  'main',
  'db/every-schedule',
  'conformance/example',
  'incidents/agent-sandbox',
  'executions/true-end',
  'db/races',
  'web/hostile',
  'executions/thousand',
  'simulate/kept',
  'incidents/docker',
  'bench/bench',
  'db/random-schedules',
  'incidents/o-lost-in-a-restart',
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

/** They count what their process has open, or put something else in the place of a module that others have loaded. */
const ALONE = ['test/backends/local/attach*.test.ts', 'test/web/app.test.ts']

const every = {
  // Tests wait for events and not for time; this only ends one that waits for something that never comes.
  testTimeout: 60_000,
  hookTimeout: 60_000,
  expect: { poll: { timeout: 30_000 } },
  // Much of a test's time is spent waiting for processes, so two cores carry more than two files.
  maxWorkers: 4,
}

export default defineConfig({
  test: {
    globalSetup: 'test/support/global-setup.ts',
    sequence: { sequencer: LongestFirst },
    maxWorkers: every.maxWorkers,
    projects: [
      // To load everything costs more than most files do with it, so one process works on many of them, one after the other.
      { test: { ...every, name: 'together', include: ['test/**/*.test.ts'], exclude: ALONE, isolate: false } },
      { test: { ...every, name: 'alone', include: ALONE } },
    ],
  },
})
