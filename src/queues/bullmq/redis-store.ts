import { Queue, Worker } from 'bullmq'
import { Cluster, Redis } from 'ioredis'
import { describeRedis, parseRedisUrl, type RedisTarget } from '../../redis-url.ts'
import {
  type ConnectionWatch,
  PRODUCE_MS,
  type QueueStore,
  qualifiedName,
  type StoreFacts,
  type StoreOptions,
} from './store.ts'
import { telemetryOf } from './telemetry.ts'

/** BullMQ blocks on Redis for up to 10 s; a socket that is silent for longer than this while it owes an answer is dead. */
const CONSUMER_SOCKET_MS = 20_000
const RECONNECT_MS_MAX = 2_000

export function openRedisStore(redisUrl: string, { fleet, role }: StoreOptions, watch: ConnectionWatch): QueueStore {
  const target = parseRedisUrl(redisUrl)
  const client = connect(target, role)
  client.on('error', watch.lost)
  client.on('ready', watch.restored)
  const connected = new Promise<void>((resolve) => client.once('ready', () => resolve()))
  // Every queue has its own hash tag: its keys share a slot, as BullMQ's scripts need, and the queues spread over a cluster.
  const prefix = (name: string) => `sandman:{${name}}`
  return {
    where: describeRedis(target),
    queue(name, options) {
      const qualified = qualifiedName(fleet, name)
      return new Queue(qualified, { ...options, ...telemetryOf(name), connection: client, prefix: prefix(qualified) })
    },
    worker(name, processor, options) {
      const qualified = qualifiedName(fleet, name)
      return new Worker(qualified, processor, {
        ...options,
        ...telemetryOf(name),
        connection: client,
        prefix: prefix(qualified),
      })
    },
    async look() {
      // A producer's client refuses commands until it is connected; the first question has to wait for that.
      if (client.status !== 'ready') await connected
      return look(client)
    },
    report: watch.report,
    close: async () => client.disconnect(),
  }
}

function connect(target: RedisTarget, role: StoreOptions['role']): Redis | Cluster {
  const options = {
    ...(target.username && { username: target.username }),
    ...(target.password && { password: target.password }),
    ...(target.tls && { tls: {} }),
    connectTimeout: PRODUCE_MS,
    keepAlive: 10_000,
    // A producer's command fails when the connection does; a consumer's waits for the next one.
    ...(role === 'producer'
      ? { enableOfflineQueue: false, maxRetriesPerRequest: 0, socketTimeout: PRODUCE_MS }
      : { maxRetriesPerRequest: null, socketTimeout: CONSUMER_SOCKET_MS }),
  }
  const retryStrategy = (times: number) => Math.min(times * 100, RECONNECT_MS_MAX)
  if (target.kind === 'cluster') {
    return new Cluster(target.nodes, {
      redisOptions: options,
      clusterRetryStrategy: retryStrategy,
      enableOfflineQueue: role === 'consumer',
    })
  }
  if (target.kind === 'sentinel') {
    return new Redis({
      ...options,
      retryStrategy,
      sentinels: target.nodes,
      name: target.sentinelName as string,
      // Behind sentinels, `tls` alone encrypts nothing.
      ...(target.tls && { enableTLSForSentinelMode: true, sentinelTLS: {} }),
      db: target.db,
    })
  }
  const [node] = target.nodes
  return new Redis({ ...options, retryStrategy, ...node, db: target.db })
}

async function look(client: Redis | Cluster): Promise<StoreFacts> {
  const [info, [seconds, micros]] = await Promise.all([
    client.info(),
    client.time() as unknown as Promise<[string, string]>,
  ])
  const field = (name: string) => new RegExp(`^${name}:(.*)$`, 'm').exec(info)?.[1]?.trim()
  const policy = field('maxmemory_policy')
  return {
    version: `${field('valkey_version') ? 'Valkey' : 'Redis'} ${field('valkey_version') ?? field('redis_version') ?? 'of unknown version'}`,
    clockMs: Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000),
    evictionPolicy: policy === 'noeviction' ? undefined : policy,
  }
}
