import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { notFound, send } from './calls.ts'
import type { Cloud } from './cloud.ts'

const STREAM_PIECE = 64 * 1024

export type Attach = { ref: string; agent: { incarnation: string; key?: string }; from: number }

/** What an agent has written, from a byte on, until it has ended. */
export async function stream(
  cloud: Cloud,
  response: ServerResponse,
  { ref, agent: { incarnation, key }, from }: Attach,
): Promise<void> {
  const instance = cloud.instances.get(ref)
  const agent = instance?.agents.get(key ?? '')
  cloud.performed.push({ method: 'attach', ref, body: { from } })
  if (!instance || !agent) return send(response, notFound(ref))
  const isThere = () => cloud.instances.has(ref) && String(instance.incarnation) === incarnation
  const fault = cloud.breaksStreams(from)
  const most = from + (fault?.afterBytes ?? Number.POSITIVE_INFINITY)
  const total = agent.hasEnded && isThere() && cloud.tellsTotals ? { 'x-total-bytes': agent.bytes.length } : {}
  response.writeHead(200, { 'content-type': 'application/octet-stream', ...total }).flushHeaders()
  const closed = once(response, 'close')
  agent.onCut(() => response.destroy())
  for (let at = from; !response.destroyed; ) {
    const piece = agent.bytes.subarray(at, Math.min(at + STREAM_PIECE, most))
    at += piece.length
    cloud.streamed += piece.length
    if (piece.length > 0 && !response.write(piece)) await Promise.race([once(response, 'drain'), closed])
    if (fault && at === most) {
      if (fault.how === 'hang') return
      // What was sent has to arrive: the break comes behind it, and not instead of it.
      await new Promise<void>((resolve) => setTimeout(resolve, fault.afterMs ?? 1))
      fault.how === 'end' ? response.end() : response.destroy()
      return
    }
    if (at < agent.bytes.length) continue
    if (agent.hasEnded || !isThere()) {
      response.end()
      return
    }
    await Promise.race([agent.changed(), closed])
  }
}
