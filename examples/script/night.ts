import { createFleet } from 'sandman'

/**
 * One life of a sandbox, from a plain script: it is made, works, sleeps, wakes, and ends because nobody came back. Needs a worker on the
 * same database, such as the one of `npm start`.
 */
const { DATABASE_URL } = process.env
if (!DATABASE_URL) throw new Error('Set DATABASE_URL.')

/** Longer than the reaper takes to look again: whoever waits for it waits for no longer than this. */
const REAPED_WITHIN_MS = 120_000

const fleet = createFleet({ databaseUrl: DATABASE_URL })
// Ctrl-C ends the waiting. What was asked for is carried out all the same, and the limits below end the rest.
const leaving = new AbortController()
process.once('SIGINT', () => leaving.abort())
const patiently = { wait: '30s', signal: leaving.signal }

try {
  const { sandbox, operation } = await fleet.spawn({
    backend: 'local',
    metadata: { example: 'script' },
    // It may sleep for ten seconds, and live for an hour, whatever happens to this script.
    ttl: { retention: '10s', hard: '1h' },
    ...patiently,
  })
  if (operation.status !== 'succeeded')
    throw new Error(operation.error?.message ?? 'No worker took it: is one running?')
  const { id } = sandbox
  console.log(`${id} is ${sandbox.state}`)

  await run(id, 'for n in 1 2 3; do echo "line $n" | tee -a notes.txt; sleep 0.2; done')

  const paused = await fleet.pause(id, patiently)
  console.log(`${id} is ${paused.sandbox.state}, on ${paused.sandbox.checkpoint?.id}`)

  // To run something in a sandbox that sleeps wakes it, too. `resume` is for who wants to know that it is awake first.
  const resumed = await fleet.resume(id, patiently)
  console.log(`${id} is ${resumed.sandbox.state} again`)
  await run(id, 'echo "it still has $(wc -l < notes.txt) lines"')

  await fleet.pause(id, patiently)
  console.log('It sleeps, and nobody comes back: the reaper, which looks every 30 seconds, will end it.')
  const reaped = AbortSignal.any([leaving.signal, AbortSignal.timeout(REAPED_WITHIN_MS)])
  for await (const _ of fleet.changes({ sandboxIds: [id], signal: reaped })) {
    if ((await fleet.get(id)).state === 'gone') break
  }
  console.log((await fleet.why(id)).answer)
} finally {
  await fleet.close()
}

/** Runs a command in a sandbox, and prints what that prints, as it comes. */
async function run(sandboxId: string, script: string): Promise<void> {
  const { execution } = await fleet.execute(sandboxId, { command: ['sh', '-c', script], deadline: '1m' })
  for await (const { bytes } of fleet.output(execution.id, { signal: leaving.signal })) process.stdout.write(bytes)
  const { execution: ended } = await fleet.execution(execution.id, patiently)
  console.log(`${ended.status}: ${ended.reason}, exit code ${ended.exitCode}`)
}
