import type { V1Deployment, V1Probe } from '@kubernetes/client-node'
import { expect, onTestFinished, test } from 'vitest'
import { parseConfig } from '../../src/config.ts'
import { createFleet } from '../../src/index.ts'
import { PRODUCE_MS } from '../../src/queues/bullmq/store.ts'
import { createApp } from '../../src/web/app.ts'
import { createDatabase } from '../support/database.ts'
import { readContainer, readManifest, readSettings } from '../support/manifests.ts'

const POD = '10.1.2.3'
const tokens = [{ name: 'app', scope: 'operate' as const, secret: 'a-secret-of-this-test' }]

/** As kubelets ask: by the pod's address, and without a token. */
async function ask(probe: V1Probe | undefined, { migrated }: { migrated: boolean }): Promise<number> {
  const database = await createDatabase({ migrated })
  const fleet = createFleet({ databaseUrl: database.url })
  onTestFinished(async () => {
    await fleet.close()
    await database.drop()
  })
  const app = createApp(fleet, { tokens })
  const { port } = parseConfig(await readSettings())
  const host = `${POD}:${port}`
  const headers = { host, 'user-agent': 'kube-probe/1.33' }
  return (await app.request(`http://${host}${probe?.httpGet?.path}`, { headers })).status
}

test('a web process that has started is alive, and ready once its database is migrated', async () => {
  const { startupProbe, livenessProbe, readinessProbe } = await readContainer('web')
  expect(await ask(startupProbe, { migrated: false })).toBe(200)
  expect(await ask(livenessProbe, { migrated: false })).toBe(200)
  expect(await ask(readinessProbe, { migrated: false })).toBe(503)
  expect(await ask(readinessProbe, { migrated: true })).toBe(200)
})

test('probes go to the port that the process listens on, and wait for as long as its own looks take', async () => {
  const { startupProbe, livenessProbe, readinessProbe, ports = [] } = await readContainer('web')
  const { port } = parseConfig(await readSettings())
  expect(ports).toEqual([{ name: 'http', containerPort: port }])
  for (const probe of [startupProbe, livenessProbe, readinessProbe]) expect(probe?.httpGet?.port).toBe('http')
  expect((readinessProbe?.timeoutSeconds ?? 0) * 1_000).toBeGreaterThan(PRODUCE_MS)
})

test('a worker, of which nothing could be asked that a restart would mend, has no probes', async () => {
  const { startupProbe, livenessProbe, readinessProbe, ports } = await readContainer('worker')
  expect([startupProbe, livenessProbe, readinessProbe, ports]).toEqual([undefined, undefined, undefined, undefined])
  // A pod without a readiness probe is ready at once: this is what a release that cannot start is noticed by.
  const { spec } = await readManifest<V1Deployment>('Deployment', 'sandman-worker')
  expect(spec?.minReadySeconds).toBeGreaterThan(0)
})
