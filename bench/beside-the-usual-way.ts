import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import { inParallel } from './in-parallel.ts'
import { openLane } from './lane.ts'
import type { Bench, Result } from './section.ts'
import { median, rounded } from './statistics.ts'
import { startSubject } from './subject.ts'
import { MEASURED_KINDS, type Measured, type MeasuredKind } from './subjects/order.ts'
import { makeUsualSandboxes, type UsualJob } from './usual-way.ts'

const AT_ONCE = 32

/** What the guarantees cost: the rate of one worker beside the same lifecycle as most projects have it, in turns. On Redis. */
export async function usualWay({ servers, sizes, profileFolder }: Bench): Promise<Result> {
  const { sandboxes, rounds } = sizes.usualWay
  const databaseUrl = await servers.createDatabase('usual_way')
  const place = (fleet: string) => ({ databaseUrl, redisUrl: servers.redisUrl, fleet, profileFolder })
  const lane = await openLane(place('beside-usual'))
  const connection = new Redis(servers.redisUrl, { maxRetriesPerRequest: null })
  const queue = new Queue<UsualJob>('usual-way', {
    connection,
    defaultJobOptions: { removeOnComplete: 1_000, attempts: 5 },
  })
  const [worker, usual] = await Promise.all([
    startSubject('worker', place('beside-usual')),
    startSubject('usual-way', place('usual-way')),
  ])
  try {
    const ours = await lane.makeRunning(sandboxes)
    const theirs = await makeUsualSandboxes(lane.pool, sandboxes)
    const drainUsual = async (kind: MeasuredKind) => {
      await queue.pause()
      await inParallel(theirs, AT_ONCE, (sandboxId) => queue.add(kind, { sandboxId, kind }))
      const measured = usual.ask<Measured>('drain', sandboxes)
      await queue.resume()
      return measured
    }
    const rates: { ours: number; usual: number }[] = []
    for (let round = 0; round <= rounds; round++) {
      const ms = { ours: 0, usual: 0 }
      for (const kind of MEASURED_KINDS) {
        ms.ours += (await lane.drain(worker, kind, sandboxes, () => lane.request(kind, ours))).ms
        ms.usual += (await drainUsual(kind)).ms
      }
      await lane.tidyUp()
      const perSecond = (each: number) => ((MEASURED_KINDS.length * sandboxes) / each) * 1_000
      if (round > 0) rates.push({ ours: perSecond(ms.ours), usual: perSecond(ms.usual) })
    }
    const ops_per_s = rounded(median(rates.map(({ ours }) => ours)), 4)
    const usual_per_s = rounded(median(rates.map(({ usual }) => usual)), 4)
    const ratio = rounded(ops_per_s / usual_per_s)
    const figure = { figure: 'what the guarantees cost, on redis', value: ops_per_s, unit: '/s', limit: usual_per_s }
    return {
      json: { ops_per_s, usual_per_s, ratio },
      rows: [{ ...figure, note: 'the usual way, without the guarantees', ratio }],
    }
  } finally {
    await Promise.all([worker.stop(), usual.stop()])
    await queue.close()
    connection.disconnect()
    await lane.close()
  }
}
