import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { inject } from 'vitest'
import { HOW_TO_GET_REDIS, type RedisServer, startOnFreePort, startRedisServer } from '../../proof/redis.ts'

export type { RedisServer } from '../../proof/redis.ts'

/** A Redis that belongs to one test: it may be flushed, misconfigured, stopped. */
export function startPrivateRedis(...args: string[]): Promise<RedisServer> {
  return startRedisServer(privateCommand(), ...args)
}

/** A sentinel that watches the Redis on `primaryPort`, by the name of `name`. */
export function startSentinel(name: string, primaryPort: number): Promise<RedisServer> {
  return startOnFreePort(privateCommand(), '+monitor master', async (port, folder) => {
    const config = path.join(folder, 'sentinel.conf')
    await writeFile(
      config,
      `port ${port}\nbind 127.0.0.1\ndir ${folder}\nsentinel monitor ${name} 127.0.0.1 ${primaryPort} 1\n`,
    )
    return [config, '--sentinel']
  })
}

function privateCommand(): string {
  const command = inject('redisServer')
  if (!command) throw new Error(`This test starts a Redis of its own. ${HOW_TO_GET_REDIS}`)
  return command
}
