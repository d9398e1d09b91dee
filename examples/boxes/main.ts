import { abilitiesOf, createFleet, createWorker } from 'sandman'
import { openBoxesBackend } from './backend.ts'
import { startBoxes } from './service.ts'

/** The backend at work: a worker that has it, and an app that asks for a sandbox on it. In real life these are two processes. */
const { DATABASE_URL: databaseUrl } = process.env
if (!databaseUrl) throw new Error('Set DATABASE_URL.')

const boxes = await startBoxes()
// A fleet of its own, because its workers are the only ones that have this backend.
const place = { databaseUrl, fleet: 'boxes' }
const backend = openBoxesBackend({ url: boxes.url, fleet: place.fleet })
const worker = await createWorker({ ...place, backends: [backend] })
const fleet = createFleet({ ...place, backends: [abilitiesOf(backend)] })

try {
  const { sandbox } = await fleet.spawn({ backend: 'boxes', wait: '30s' })
  console.log(`${sandbox.id} is ${sandbox.state}: box ${sandbox.providerRef}`)

  const { execution } = await fleet.execute(sandbox.id, { command: ['sh', '-c', 'echo "hello from $(pwd)"'] })
  for await (const { bytes } of fleet.output(execution.id)) process.stdout.write(bytes)

  // What a backend cannot do is refused, and the sandbox runs on.
  const paused = await fleet.pause(sandbox.id, { wait: '30s' })
  console.log(`pause: ${paused.operation.status}, ${paused.operation.error?.errorType}; it is ${paused.sandbox.state}`)

  const destroyed = await fleet.destroy(sandbox.id, { wait: '30s' })
  console.log(`${sandbox.id} is ${destroyed.sandbox.state}: ${destroyed.sandbox.goneReason}`)
} finally {
  await fleet.close()
  await worker.stop()
  await boxes.stop()
}
