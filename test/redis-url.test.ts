import { describe, expect, test } from 'vitest'
import { describeRedis, isRedisUrl, parseRedisUrl } from '../src/redis-url.ts'

describe('the URL of a Redis', () => {
  test.each([
    ['redis://localhost', 'Redis at localhost:6379'],
    ['redis://:secret@cache:7000/3', 'Redis at cache:7000, database 3'],
    ['rediss://user:p%40ss@cache', 'Redis at cache:6379'],
    ['redis://[::1]:7000', 'Redis at ::1:7000'],
    ['redis+cluster://a:7000,b:7001', 'Redis Cluster at a:7000, b:7001'],
    ['redis+sentinel://:secret@a,b:26380/main/2', 'Redis main behind the sentinels at a:26379, b:26380'],
  ])('%s is %s', (url, description) => {
    expect(describeRedis(parseRedisUrl(url))).toBe(description)
  })

  test('carries who, with which password, and whether it is encrypted', () => {
    expect(parseRedisUrl('rediss://user:p%40ss%2F@cache:7000')).toEqual({
      kind: 'single',
      nodes: [{ host: 'cache', port: 7000 }],
      tls: true,
      username: 'user',
      password: 'p@ss/',
      sentinelName: undefined,
      db: 0,
    })
  })

  test.each([
    'redis://h:notaport',
    'redis://h:99999',
    'redis://:p%zz@h',
    'redis+cluster://a:1,,b:2',
    'http://h',
    'redis://',
  ])('is not %s', (url) => {
    expect(isRedisUrl(url)).toBe(false)
  })
})
