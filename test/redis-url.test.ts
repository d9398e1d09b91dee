import { describe, expect, test } from 'vitest'
import { describeRedis, parseRedisUrl, problemOfRedisUrl } from '../src/redis-url.ts'

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
    'redis://cache/',
    'redis://cache/0',
    'redis+cluster://a:7000/',
    'redis+sentinel://a/',
    'rediss://:a?b@cache',
  ])('may be %s', (url) => {
    expect(problemOfRedisUrl(url)).toBeUndefined()
  })

  const NONE = 'must be a URL such as redis://host:6379, redis+cluster://'
  test.each([
    ['http://secret', NONE],
    ['redis://', NONE],
    ['redis://:secret%zz@h', NONE],
    ['redis://h:secret', 'has a host that is not host:port'],
    ['redis://:secret', 'has a host that is not host:port'],
    ['redis+cluster://a:1,,b:2', 'has a host that is not host:port'],
    ['redis://h:99999', 'has a port above 65535'],
    ['redis://h/secret', 'has a database that is not a number'],
    ['redis://h/1x', 'has a database that is not a number'],
    ['redis://h/-1', 'has a database that is not a number'],
    ['redis://h/3#secret', 'has a database that is not a number'],
    ['redis://user:12/34@h:6379', 'has a database that is not a number'],
    ['redis+sentinel://h/main/secret', 'has a database that is not a number'],
    ['redis://h/1/2', 'has more behind its hosts than is read'],
    ['redis+sentinel://h/main/1/2', 'has more behind its hosts than is read'],
    ['redis+cluster://a:1,b:2/4', 'has a database, and a cluster has none but its first'],
    ['redis://h?db=3', 'has a query, of which nothing is read'],
    ['redis://h/?secret', 'has a query, of which nothing is read'],
    ['redis+cluster://a?db=3', 'has a query, of which nothing is read'],
  ])('%s %s, and nothing of it is repeated', (url, problem) => {
    expect(problemOfRedisUrl(url)).toContain(problem)
    expect(problemOfRedisUrl(url)).not.toContain('secret')
    expect(() => parseRedisUrl(url)).toThrow(problem)
  })
})
