import { Hono } from 'hono'
import { secureHeaders } from 'hono/secure-headers'
import type { Token } from '../config.ts'
import type { Db } from '../db/pool.ts'
import { isSandmanError } from '../errors.ts'
import type { Events } from '../events.ts'
import type { Producer } from '../queues/bullmq/producer.ts'
import { VERSION } from '../version.ts'
import { type AccessVariables, grantAccess, isReading, needs } from './access.ts'
import { bullBoard } from './board.ts'
import { checkReadiness } from './health.ts'
import { homePage } from './home.ts'
import { problem } from './problem.ts'

export type AppDeps = { db: Db; producer: Producer; fleet: string; tokens: Token[]; events: Events }

export function createApp({ db, producer, fleet, tokens, events }: AppDeps): Hono<{ Variables: AccessVariables }> {
  const app = new Hono<{ Variables: AccessVariables }>()
  app.use(secureHeaders())

  // For load balancers and orchestrators, which have no token. They are told whether, not why: the front page says that.
  app.get('/healthz', (c) => c.json({ status: 'alive' }))
  app.get('/readyz', async (c) => {
    const { ready, checks } = await checkReadiness({ db, producer })
    const verdicts = Object.entries(checks).map(([name, { ok }]) => [name, ok ? 'ok' : 'failing'])
    return c.json({ status: ready ? 'ready' : 'not_ready', checks: Object.fromEntries(verdicts) }, ready ? 200 : 503)
  })

  app.use(grantAccess(tokens))
  app.get('/', needs('read'), async (c) => {
    const [readiness, queues] = await Promise.all([
      checkReadiness({ db, producer }),
      producer.counts().catch(() => undefined),
    ])
    return c.html(homePage({ fleet, readiness, queues }))
  })
  app.get('/v1', needs('read'), (c) =>
    c.json({
      name: 'sandman',
      version: VERSION,
      fleet,
      links: { health: '/healthz', readiness: '/readyz', queues: '/queues', console: '/' },
    }),
  )
  app.use('/queues/*', (c, next) => needs(isReading(c) ? 'read' : 'operate')(c, next))
  app.get('/queues/', (c) => c.redirect('/queues'))
  app.route('/queues', bullBoard('/queues', producer))

  app.notFound((c) =>
    problem(c, 404, { errorType: 'not_found', message: `There is nothing at ${c.req.method} ${c.req.path}.` }),
  )
  app.onError((error, c) => {
    if (isSandmanError(error, 'queue_unreachable')) {
      c.header('retry-after', '5')
      return problem(c, 503, { errorType: error.code, message: error.message, retryable: true })
    }
    events.emit('request.failed', { method: c.req.method, path: c.req.path, error })
    return problem(c, 500, {
      errorType: 'internal',
      message: 'Something went wrong here; the log says what.',
      retryable: true,
    })
  })
  return app
}
