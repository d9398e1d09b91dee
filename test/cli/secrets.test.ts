import { expect, test } from 'vitest'
import { secretsOf } from '../../src/cli/secrets.ts'
import { parseConfig } from '../../src/config.ts'

test('whatever the environment has that nobody may see is known to who writes lines', () => {
  const config = parseConfig({
    DATABASE_URL: 'postgres://user:pass%20word@host/name',
    REDIS_URL: 'redis://:of-redis@host',
    SANDMAN_TOKENS: 'app:read:a-secret-of-this-test',
    E2B_API_KEY: 'key-of-e2b',
    AGENTUITY_SDK_KEY: 'key-of-agentuity',
    OTEL_EXPORTER_OTLP_HEADERS: 'api-key=key-of-a-collector,authorization=Basic%20abc=',
  })
  expect(secretsOf(config).toSorted()).toEqual(
    [
      'pass%20word',
      'pass word',
      'of-redis',
      'of-redis',
      'a-secret-of-this-test',
      'key-of-e2b',
      'key-of-agentuity',
      'key-of-a-collector',
      'Basic%20abc=',
    ].toSorted(),
  )
})
