import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'

/** A span as it arrived: what was sent by OTLP, with its attributes as an object. */
export type CollectedSpan = {
  service: string
  name: string
  /** As in the protocol: 1 is internal, then server, client, producer, consumer. */
  kind: number
  traceId: string
  spanId: string
  parentSpanId: string | undefined
  attributes: Record<string, unknown>
  isFailed: boolean
}

type Sent = {
  resourceSpans: {
    resource: { attributes: Attribute[] }
    scopeSpans: {
      spans: (Omit<CollectedSpan, 'attributes'> & { attributes?: Attribute[]; status?: { code?: number } })[]
    }[]
  }[]
}
type Attribute = { key: string; value: Record<string, unknown> }

/** What collects traces, as far as OTLP over HTTP with JSON goes. */
export async function startCollector() {
  const spans: CollectedSpan[] = []
  /** Everything as it came, to look for what must not be in it. */
  const bodies: string[] = []
  const changed = new EventTarget()
  const server = createServer(async (request, response) => {
    const body = await read(request)
    bodies.push(body)
    spans.push(...parse(JSON.parse(body) as Sent))
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    changed.dispatchEvent(new Event('change'))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    bodies,
    /** Resolves with the first span that is one, now or later. */
    async until(isIt: (span: CollectedSpan) => boolean): Promise<CollectedSpan> {
      for (;;) {
        const found = spans.find(isIt)
        if (found) return found
        await new Promise((resolve) => changed.addEventListener('change', resolve, { once: true }))
      }
    },
    async stop(): Promise<void> {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const whole = Buffer.concat(chunks)
  return (request.headers['content-encoding'] === 'gzip' ? gunzipSync(whole) : whole).toString()
}

function parse({ resourceSpans }: Sent): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const service = String(valuesOf(resource.attributes)['service.name'])
    return scopeSpans
      .flatMap(({ spans }) => spans)
      .map(({ name, kind, traceId, spanId, parentSpanId, attributes = [], status }) => ({
        service,
        name,
        kind,
        traceId,
        spanId,
        parentSpanId: parentSpanId || undefined,
        attributes: valuesOf(attributes),
        isFailed: status?.code === 2,
      }))
  })
}

function valuesOf(attributes: Attribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
}
