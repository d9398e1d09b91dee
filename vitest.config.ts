import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: 'test/support/global-setup.ts',
    // Tests wait for events and not for time; this only ends one that waits for something that never comes.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Much of a test's time is spent waiting for processes, so two cores carry more than two files.
    maxWorkers: 4,
  },
})
