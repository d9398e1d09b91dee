import { describe, expect, test } from 'vitest'
import { parseConfig } from '../src/config.ts'
import { isLoopback } from '../src/config-values.ts'
import { parseDurationMs } from '../src/duration.ts'
import { SandmanError } from '../src/errors.ts'
import { QUEUE_NAMES } from '../src/queues/names.ts'

const DAY_MS = 86_400_000

function problemsOf(environment: Record<string, string>): string[] {
  try {
    parseConfig(environment)
    return []
  } catch (error) {
    expect(error).toBeInstanceOf(SandmanError)
    return (error as SandmanError).details.problems as string[]
  }
}

describe('the configuration', () => {
  test('needs nothing', () => {
    expect(parseConfig({})).toMatchObject({
      databaseUrl: undefined,
      redisUrl: undefined,
      port: 3000,
      host: '127.0.0.1',
      fleet: 'default',
      queues: [...QUEUE_NAMES],
      graceMs: 25_000,
      logLevel: 'info',
    })
  })

  test('takes an empty variable as one that is not set', () => {
    expect(parseConfig({ PORT: '', DATABASE_URL: '', SANDMAN_HOST: '' })).toMatchObject({
      port: 3000,
      databaseUrl: undefined,
    })
  })

  test('reads how often a token may ask, and how many proxies are in front', () => {
    expect(parseConfig({})).toMatchObject({ rateLimit: { count: 200, perMs: 1_000 }, proxies: 0 })
    expect(parseConfig({ SANDMAN_RATE_LIMIT: '6000/m', SANDMAN_PROXIES: '2' })).toMatchObject({
      rateLimit: { count: 6_000, perMs: 60_000 },
      proxies: 2,
    })
    expect(parseConfig({ SANDMAN_RATE_LIMIT: 'off' }).rateLimit).toBe('off')
  })

  test.each([
    [{}, false],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }, true],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://collector:4318/v1/traces' }, true],
    [{ OTEL_TRACES_EXPORTER: 'console' }, true],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318', OTEL_TRACES_EXPORTER: 'none' }, false],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318', OTEL_SDK_DISABLED: 'true' }, false],
    [{ OTEL_SERVICE_NAME: 'sleepers' }, false],
  ])('knows from %j whether traces are wanted: %j', (environment, isWanted) => {
    expect(parseConfig(environment).tracing.isWanted).toBe(isWanted)
  })

  test('reads the limits of the fleet, and how long what is kept', () => {
    expect(parseConfig({})).toMatchObject({ ttl: {}, sweeper: 'act', destroyMax: 100 })
    expect(parseConfig({}).keep).toEqual({ eventsMs: 90 * DAY_MS, outputMs: 30 * DAY_MS, keysMs: 7 * DAY_MS })
    const { ttl, keep, sweeper, destroyMax } = parseConfig({
      SANDMAN_TTL: 'idle=30m, hard=7d,if_unsupported=kill',
      SANDMAN_KEEP: 'output=1d',
      SANDMAN_SWEEPER: 'report',
      SANDMAN_DESTROY_MAX: '5',
    })
    expect(ttl).toEqual({ idleMs: 1_800_000, hardMs: 7 * DAY_MS, retentionMs: undefined, ifUnsupported: 'kill' })
    expect(keep).toEqual({ eventsMs: 90 * DAY_MS, outputMs: DAY_MS, keysMs: 7 * DAY_MS })
    expect([sweeper, destroyMax]).toEqual(['report', 5])
  })

  test.each([
    ['SANDMAN_TTL', 'idle'],
    ['SANDMAN_TTL', 'idle=soon'],
    ['SANDMAN_TTL', 'idle=10ms'],
    ['SANDMAN_TTL', 'idle=1h,idle=2h'],
    ['SANDMAN_TTL', 'soft=1h'],
    ['SANDMAN_TTL', 'constructor=1h'],
    ['SANDMAN_TTL', 'if_unsupported=pause'],
    ['SANDMAN_TTL', 'hard=9999999d'],
    ['SANDMAN_KEEP', 'logs=1d'],
    ['SANDMAN_KEEP', 'events=never'],
    ['SANDMAN_SWEEPER', 'maybe'],
    ['SANDMAN_RATE_LIMIT', '200'],
    ['SANDMAN_RATE_LIMIT', '0/s'],
    ['SANDMAN_RATE_LIMIT', '5/d'],
    ['SANDMAN_PROXIES', 'yes'],
    ['SANDMAN_PROXIES', '-1'],
    ['SANDMAN_DOCKER_PAUSE', 'hibernate'],
    ['SANDMAN_BACKENDS', 'podman'],
    ['DOCKER_HOST', 'somewhere'],
    ['E2B_API_URL', 'https://e2b.example'],
    ['SANDMAN_DESTROY_MAX', '0'],
    ['SANDMAN_DESTROY_MAX', '1e9'],
  ])('refuses %s=%s by name, with an example', (name, value) => {
    expect(problemsOf({ [name]: value })).toEqual([expect.stringMatching(new RegExp(`^${name}: .{10}`))])
  })

  test('tells every problem at once, by name', () => {
    const problems = problemsOf({
      DATABASE_URL: 'mysql://somewhere',
      REDIS_URL: 'memcached://somewhere',
      PORT: 'eighty',
      SANDMAN_FLEET: 'Not A Name',
      SANDMAN_GRACE: '25 seconds',
      SANDMAN_QUEUES: 'canary,pidgeon',
      SANDMAN_TOKENS: 'ann:king:short',
      LOG_LEVEL: 'loud',
    })
    const names = problems.map((problem) => problem.split(':')[0])
    expect(names.sort()).toEqual([
      'DATABASE_URL',
      'LOG_LEVEL',
      'PORT',
      'REDIS_URL',
      'SANDMAN_FLEET',
      'SANDMAN_GRACE',
      'SANDMAN_QUEUES',
      'SANDMAN_TOKENS',
    ])
    expect(problems.join('\n')).toContain('has no queue named pidgeon; there are: canary')
  })

  test.each([
    ['DATABASE_URL', 'postgres://u:p@h:99999/x'],
    ['DATABASE_URL', 'postgres://u:p%zz@h/x'],
    ['REDIS_URL', 'redis://h:notaport'],
    ['REDIS_URL', 'redis://:p%zz@h'],
    ['REDIS_URL', 'redis://h:99999'],
    ['REDIS_URL', 'redis://h/1x'],
    ['REDIS_URL', 'redis://h?db=3'],
    ['PORT', ' '],
    ['PORT', '99999'],
    ['PORT', '-1'],
    ['SANDMAN_GRACE', '30d'],
    ['SANDMAN_QUEUES', ','],
    ['SANDMAN_TOKENS', 'a:read:0123456789abcdef,b:admin:0123456789abcdef'],
    ['SANDMAN_TOKENS', 'a:read:with a space 0123456789'],
  ])('%s may not be %j', (name, value) => {
    const problems = problemsOf({ [name]: value })
    expect(problems).toHaveLength(1)
    expect(problems[0]).toMatch(new RegExp(`^${name}: (must be|has|names) `))
  })

  test('takes a queue that is named twice once', () => {
    expect(parseConfig({ SANDMAN_QUEUES: 'canary, canary' }).queues).toEqual(['canary'])
  })

  test('never repeats what may be a secret', () => {
    const problems = problemsOf({ SANDMAN_TOKENS: 'hunter2-hunter2-hunter2', DATABASE_URL: 'oops://u:hunter2@host' })
    expect(problems).toHaveLength(2)
    expect(problems.join('\n')).not.toContain('hunter2')
  })

  test('notices a misspelt setting, and suggests the right one', () => {
    expect(problemsOf({ SANDMAN_TOKEN: 'x', SANDMAN_NONSENSE: 'y' })).toEqual([
      'SANDMAN_TOKEN: is not a setting; did you mean SANDMAN_TOKENS?',
      'SANDMAN_NONSENSE: is not a setting',
    ])
  })

  test('reads tokens, whose secrets may contain colons', () => {
    const { tokens, host } = parseConfig({ SANDMAN_TOKENS: 'app:operate:0123456789abcdef, eve:read:a:b:c:d:e:f:g:h:i' })
    expect(tokens).toEqual([
      { name: 'app', scope: 'operate', secret: '0123456789abcdef' },
      { name: 'eve', scope: 'read', secret: 'a:b:c:d:e:f:g:h:i' },
    ])
    expect(host).toBe('0.0.0.0')
  })

  test('refuses to listen to the world without tokens', () => {
    expect(problemsOf({ SANDMAN_HOST: '0.0.0.0' })[0]).toContain('SANDMAN_HOST: 0.0.0.0 is not this machine alone')
    expect(problemsOf({ SANDMAN_HOST: '0.0.0.0', SANDMAN_TOKENS: 'app:read:0123456789abcdef' })).toEqual([])
    expect(problemsOf({ SANDMAN_HOST: '::1' })).toEqual([])
  })
})

test.each([
  ['127.0.0.1', true],
  ['127.8.9.10', true],
  ['localhost', true],
  ['LOCALHOST', true],
  ['::1', true],
  ['0.0.0.0', false],
  ['127.0.0.1.example.com', false],
  ['example.com', false],
])('%s is this machine alone: %s', (host, expected) => {
  expect(isLoopback(host)).toBe(expected)
})

test.each([
  ['500ms', 500],
  ['90s', 90_000],
  ['15m', 900_000],
  ['24h', 86_400_000],
  ['7d', 604_800_000],
  ['90', undefined],
  ['-1s', undefined],
  ['1.5s', undefined],
  ['', undefined],
])('the duration %j is %s ms', (text, ms) => {
  expect(parseDurationMs(text)).toBe(ms)
})
