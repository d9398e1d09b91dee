/** The provider as a process of its own: an E2B that works, and a way to it that does not. Started by `provider.ts`. */
import { FakeE2b } from '../test/support/e2b/server.ts'
import { FaultyWay } from './faulty-way.ts'

export type ProviderOrder =
  | { kind: 'weather'; seed: number; isOn: boolean }
  | { kind: 'away'; forMs: number }
  | { kind: 'count' }

for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => {})
process.once('disconnect', () => process.exit(0))

const e2b = await FakeE2b.start()
const way = await FaultyWay.to(e2b.url)

process.on('message', (order: ProviderOrder) => {
  if (order.kind === 'weather') way.setWeather(order)
  if (order.kind === 'away') way.away(order.forMs)
  if (order.kind === 'count') process.send?.({ counted: way.counted })
})
process.send?.({ url: way.url, directUrl: e2b.url, apiKey: e2b.apiKey })
