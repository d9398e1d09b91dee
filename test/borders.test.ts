import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

/** `npm run check` keeps the borders between the folders; this keeps that check awake. */
const run = promisify(execFile)
const root = path.resolve(import.meta.dirname, '..')
let project: string

beforeAll(async () => {
  project = await mkdtemp(path.join(os.tmpdir(), 'sandman-borders-'))
  const { $schema, vcs, ...config } = JSON.parse(await readFile(path.join(root, 'biome.json'), 'utf8')) as Record<
    string,
    unknown
  >
  await writeFile(path.join(project, 'biome.json'), JSON.stringify(config))
})
afterAll(() => rm(project, { recursive: true, force: true }))

/** One file for each, and one look at all of them. Says of whom the check complains, and what. */
async function complaints(
  cases: readonly (readonly [file: string, imported: string])[],
): Promise<(string | undefined)[]> {
  const files = cases.map(([file, imported], nth) => [file.replace(/x\.ts$/, `x${nth}.ts`), imported] as const)
  for (const [file, imported] of files) {
    await mkdir(path.dirname(path.join(project, file)), { recursive: true })
    await writeFile(path.join(project, file), `export * from '${imported}'\n`)
  }
  const biome = path.join(root, 'node_modules/@biomejs/biome/bin/biome')
  const args = ['lint', '--only=style/noRestrictedImports', '--max-diagnostics=none', '--reporter=json', '.']
  const { stdout } = await run(process.execPath, [biome, ...args], { cwd: project }).catch(
    (error: { stdout: string }) => error,
  )
  const { summary, diagnostics } = JSON.parse(stdout) as {
    summary: { unchanged: number }
    diagnostics: { category: string; location: { path: string } }[]
  }
  expect(summary.unchanged).toBe(files.length + 1) // it has looked at all of them, and at its own configuration
  return files.map(([file]) => diagnostics.find(({ location }) => location.path === file)?.category)
}

const REFUSED = [
  ['src/sandbox/x.ts', '../db/pool.ts'],
  ['src/sandbox/x.ts', '../clock.ts'],
  ['src/sandbox/x.ts', 'node:crypto'],
  ['src/sandbox/x.ts', 'pino'],
  ['src/x.ts', './sandbox/judge.ts'],
  ['src/db/x.ts', '../queues/define.ts'],
  ['src/db/x.ts', '../fleet/web.ts'],
  ['src/db/x.ts', 'bullmq'],
  ['src/jobs/x.ts', '../queues/bullmq/store.ts'],
  ['src/jobs/x.ts', 'bullmq'],
  ['src/queues/x.ts', '../db/pool.ts'],
  ['src/queues/x.ts', './bullmq/store.ts'],
  ['src/queues/x.ts', 'ioredis'],
  ['src/queues/bullmq/x.ts', '../../jobs/canary.ts'],
  ['src/web/x.ts', '../fleet/dev.ts'],
  ['src/web/x.ts', '../fleet/worker.ts'],
  ['src/web/x.ts', '../jobs/canary.ts'],
  ['src/web/x.ts', '../db/pool.ts'],
  ['src/web/x.ts', '../queues/bullmq/producer.ts'],
  ['src/cli/x.ts', '../db/pool.ts'],
  ['src/cli/x.ts', '../jobs/canary.ts'],
  ['src/cli/x.ts', '../web/app.ts'],
  ['src/cli/x.ts', '../backends/backend.ts'],
  ['src/cli/x.ts', '../queues/operation.ts'],
  ['src/cli/x.ts', '../embedded/service.ts'],
  ['src/cli/x.ts', 'ioredis'],
  ['src/x.ts', './cli/run.ts'],
  ['src/fleet/x.ts', 'bullmq'],
  ['src/x.ts', 'ioredis'],
  ['src/x.ts', './db/pool.ts'],
  ['src/x.ts', './backends/backend.ts'],
  ['src/sandbox/x.ts', '../backends/backend.ts'],
  ['src/db/x.ts', '../backends/spec.ts'],
  ['src/queues/x.ts', '../backends/spec.ts'],
  ['src/queues/bullmq/x.ts', '../../backends/backend.ts'],
  ['src/embedded/x.ts', '../backends/backend.ts'],
  ['src/web/x.ts', '../backends/backend.ts'],
  ['src/jobs/x.ts', '../backends/local/backend.ts'],
  ['src/jobs/x.ts', '../backends/docker/backend.ts'],
  ['src/conformance/x.ts', '../backends/local/backend.ts'],
  ['src/conformance/x.ts', '../jobs/canary.ts'],
  ['src/backends/x.ts', '../db/pool.ts'],
  ['src/backends/x.ts', '../sandbox/judge.ts'],
  ['src/backends/local/x.ts', '../../queues/define.ts'],
  ['src/backends/local/x.ts', '../../jobs/canary.ts'],
  ['src/backends/local/x.ts', '../../fleet/dev.ts'],
  ['src/backends/local/x.ts', '../../web/app.ts'],
  ['src/backends/local/x.ts', '../../embedded/service.ts'],
  ['src/backends/local/x.ts', 'bullmq'],
  ['src/backends/local/x.ts', 'ioredis'],
  ['src/wire/x.ts', '../db/schema.ts'],
  ['src/wire/x.ts', '../sandbox/states.ts'],
  ['src/wire/x.ts', '../fleet/open-fleet.ts'],
  ['src/wire/x.ts', '../web/app.ts'],
  ['src/wire/x.ts', 'ioredis'],
  ['src/demo/x.ts', '../db/pool.ts'],
  ['src/demo/x.ts', '../jobs/canary.ts'],
  ['src/demo/x.ts', '../queues/operation.ts'],
  ['src/demo/x.ts', '../cli/run.ts'],
  ['src/demo/incidents/x.ts', 'bullmq'],
  ['src/x.ts', './wire/views.ts'],
  ['src/x.ts', './demo/play.ts'],
  ['src/index.ts', './demo/play.ts'],
  ['src/main.ts', './demo/play.ts'],
  ...['db', 'queues', 'queues/bullmq', 'jobs', 'embedded', 'backends', 'conformance', 'fleet'].flatMap((room) =>
    ['wire/views.ts', 'demo/play.ts', 'cli/run.ts'].map(
      (above) => [`src/${room}/x.ts`, `${room.includes('/') ? '../..' : '..'}/${above}`] as const,
    ),
  ),
  ['src/web/x.ts', '../demo/play.ts'],
  ['src/web/x.ts', '../cli/run.ts'],
  ...['db', 'queues', 'jobs', 'embedded', 'backends', 'fleet', 'web', 'cli', 'demo', 'wire'].map(
    (room) => [`src/${room}/x.ts`, '../conformance/suite.ts'] as const,
  ),
] as const

const ALLOWED = [
  ['src/sandbox/x.ts', './states.ts'],
  ['src/db/x.ts', '../sandbox/states.ts'],
  ['src/queues/x.ts', '../sandbox/judge.ts'],
  ['src/queues/bullmq/x.ts', 'bullmq'],
  ['src/jobs/x.ts', '../db/pool.ts'],
  ['src/jobs/x.ts', '../queues/outcome.ts'],
  ['src/fleet/x.ts', '../queues/bullmq/store.ts'],
  ['src/web/x.ts', '../fleet/fleet.ts'],
  ['src/web/x.ts', '../sandbox/states.ts'],
  ['src/web/x.ts', '../fleet/requests.ts'],
  ['src/cli/x.ts', '../fleet/fleet.ts'],
  ['src/cli/x.ts', '../sandbox/states.ts'],
  ['src/cli/x.ts', '../queues/names.ts'],
  ['src/cli/x.ts', '../backends/names.ts'],
  ['src/jobs/x.ts', '../backends/backend.ts'],
  ['src/x.ts', './sandbox/limits.ts'],
  ['src/jobs/x.ts', '../backends/spec.ts'],
  ['src/fleet/x.ts', '../backends/local/backend.ts'],
  ['src/backends/x.ts', '../sandbox/failures.ts'],
  ['src/backends/x.ts', '../sandbox/ids.ts'],
  ['src/backends/x.ts', 'zod'],
  ['src/conformance/x.ts', '../backends/backend.ts'],
  ['src/backends/local/x.ts', '../backend.ts'],
  ['src/backends/local/x.ts', '../../process-identity.ts'],
  ['src/wire/x.ts', '../fleet/views.ts'],
  ['src/wire/x.ts', '../duration.ts'],
  ['src/web/api/x.ts', '../../wire/views.ts'],
  ['src/cli/x.ts', '../wire/views.ts'],
  ['src/cli/x.ts', '../demo/play.ts'],
  ['src/demo/x.ts', '../backends/local/backend.ts'],
  ['src/demo/x.ts', '../fleet/fleet.ts'],
  ['src/demo/x.ts', '../queues/names.ts'],
  ['src/demo/x.ts', '../web/console/view.ts'],
] as const

let complained: (string | undefined)[]
beforeAll(async () => {
  complained = await complaints([...REFUSED, ...ALLOWED])
})

test.each(REFUSED.map((each, nth) => [...each, nth] as const))('%s may not import %s', (_file, _imported, nth) => {
  expect(complained[nth]).toBe('lint/style/noRestrictedImports')
})

test.each(ALLOWED.map((each, nth) => [...each, REFUSED.length + nth] as const))(
  '%s may import %s',
  (_file, _imported, nth) => {
    expect(complained[nth]).toBeUndefined()
  },
)
