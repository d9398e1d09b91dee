import { type Agent, BackendError, type Call, type Piece } from '../../src/backends/backend.ts'
import { requireLife } from '../life.ts'
import type { Abilities, Cloud } from './cloud.ts'

/** At least: what is much comes in larger pieces. */
const PIECE_BYTES = [7, 100, 65_536]

/** Where a stream goes wrong, and how. */
type Break = { how: 'is cut' | 'ends' | 'hangs'; afterBytes: number }

/** The output of an agent, as a network brings it: in pieces of any size, cut, ended or stuck wherever it likes. */
export async function* attach(
  cloud: Cloud,
  { tellsLast, name }: Abilities,
  { ref, incarnation, key = '' }: Agent,
  cursor: string | undefined,
  { signal }: Call,
): AsyncGenerator<Piece> {
  const { engine, conduct, random } = cloud
  const life = requireLife()
  const wait = (ms: number, what: string) =>
    new Promise<void>((resolve) => {
      engine.reach(life, ms, `the output of ${key || ref}: ${what}`, resolve)
    })
  const cut = () => new BackendError('sandbox_unreachable', `the output of ${key || ref} was cut`)

  await wait(conduct.callMs(), 'is attached to')
  const instance = cloud.instances.get(ref)
  const agent = instance?.agents.get(key)
  if (!conduct.isWell && (cloud.outageUntilMs.get(name) ?? 0) > engine.nowMs) {
    if (agent) cloud.breaks.push({ atMs: engine.nowMs, agent })
    throw cut()
  }
  if (!instance || !agent) throw new BackendError('sandbox_expired', `there is no ${key || ref}`)
  if (String(instance.incarnation) !== incarnation)
    throw new BackendError('overtaken', `${ref} is incarnation ${instance.incarnation} by now`)
  const isThere = () =>
    cloud.instances.get(ref) === instance &&
    instance.state === 'running' &&
    String(instance.incarnation) === incarnation
  const breaks = drawBreak()
  const pieceBytes = Math.max(random.pick(PIECE_BYTES), agent.bytes.length >> 5)
  const from = Number(cursor ?? 0)
  let at = from
  while (!signal.aborted) {
    if (breaks && at - from >= breaks.afterBytes) {
      cloud.breaks.push({ atMs: engine.nowMs, agent })
      if (breaks.how === 'hangs') await new Promise<never>(() => {})
      if (breaks.how === 'is cut') throw cut()
      return
    }
    const most = Math.min(at + pieceBytes, breaks ? from + breaks.afterBytes : Number.POSITIVE_INFINITY)
    const bytes = agent.bytes.subarray(at, Math.max(at, most))
    if (bytes.length > 0) {
      await wait(random.between(0.1, 50), `${bytes.length} bytes`)
      at += bytes.length
      yield { bytes: new Uint8Array(bytes), cursor: String(at) }
    } else if (agent.end || !isThere()) {
      // Of what is not there any more, nobody knows whether that was all.
      if (agent.end && isThere() && tellsLast) yield { bytes: new Uint8Array(), cursor: String(at), isLast: true }
      return
    } else {
      await new Promise<void>((resolve) => {
        agent.watch(() => engine.reach(life, random.between(0.1, 50), `the output of ${key || ref} goes on`, resolve))
      })
    }
  }

  function drawBreak(): Break | undefined {
    const afterBytes = random.pick([0, random.integer(1, 40), random.integer(40, 400), random.integer(400, 100_000)])
    if (conduct.happens('stream_cut')) return { how: 'is cut', afterBytes }
    if (conduct.happens('stream_ends_early')) return { how: 'ends', afterBytes }
    return conduct.happens('stream_hangs') ? { how: 'hangs', afterBytes } : undefined
  }
}
