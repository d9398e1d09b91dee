import { commandOf } from '../../chaos/agents.ts'
import { FLEET, type Site } from '../../chaos/site.ts'
import { openFleet } from '../../chaos/sweep.ts'
import { startsFolder } from '../../chaos/truth.ts'
import { createWorker } from '../../src/index.ts'

export type Used = {
  running: { sandboxId: string; ref: string }
  suspended: { sandboxId: string; checkpointRef: string }
  executionId: string
  tag: string
}

/** A sandbox that runs and has run an agent, and one that sleeps: made in all quiet, by one who is not disturbed. */
export async function makeUse(site: Site): Promise<Used> {
  const { databaseUrl, redis, root } = site
  const place = { databaseUrl, fleet: FLEET, ...(redis && { redisUrl: redis.url }) }
  const dataFolder = `${root}/data`
  const worker = await createWorker({
    ...place,
    backends: ['local'],
    dataFolder,
    queues: ['spawn', 'pause', 'streams'],
  })
  const fleet = openFleet(site)
  try {
    const wait = '60s'
    const [awake, asleep] = await Promise.all([
      fleet.spawn({ backend: 'local', wait }),
      fleet.spawn({ backend: 'local', wait }),
    ])
    const tag = 'undisturbed'
    const command = commandOf({ tag, lines: 3, exitCode: 0 }, startsFolder(site))
    const { execution } = await fleet.execute(awake.sandbox.id, { command, wait })
    const { sandbox } = await fleet.pause(asleep.sandbox.id, { wait })
    return {
      running: { sandboxId: awake.sandbox.id, ref: awake.sandbox.providerRef as string },
      suspended: { sandboxId: sandbox.id, checkpointRef: sandbox.checkpoint?.providerRef as string },
      executionId: execution.id,
      tag,
    }
  } finally {
    await Promise.all([fleet.close(), worker.stop()])
  }
}
