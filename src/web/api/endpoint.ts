import { z } from 'zod'
import { parse } from '../../checked.ts'
import type { Scope } from '../../config-values.ts'
import type { Fleet } from '../../fleet/fleet.ts'
import { TeardownRequest } from '../../fleet/requests.ts'
import { explain, problem } from '../problem.ts'
import type { WebContext } from '../routes.ts'
import { encode } from './answer-schema.ts'
import { readBody } from './body.ts'
import { type QueryReader, queryReader } from './query.ts'
import { type Reader, reader } from './request-schema.ts'

/** What a handler is given: all that it needs of a request, read and checked. */
type Asked<Query, Body> = {
  c: WebContext
  /** The id in the path, if there is one. Whether there is such a thing is for the fleet to say. */
  id: string
  query: Query
  body: Body
  /** As the library takes it; left out when there is none. */
  key: { idempotencyKey?: string | undefined }
  /** Aborted when the client goes. */
  signal: AbortSignal
}

/** What is answered: written by the schema that the endpoint has for this status. */
export type Reply = { status: 200 | 202; body: unknown; headers?: Record<string, string> }

type Definition<Query, Body> = {
  method: 'GET' | 'POST'
  path: string
  scope: Scope
  tag: string
  /** The name that a generated client gives it. */
  name: string
  summary: string
  description?: string
  query?: QueryReader<Query>
  body?: Reader<Body>
  /** Takes the header `Idempotency-Key`. */
  isKeyed?: boolean
  /** Other headers that it reads. */
  headers?: { name: string; description: string }[]
  answers: Partial<Record<200 | 202, z.ZodType>>
  /** What it answers besides, where that is no JSON. */
  others?: { status: 200 | 204; type?: string; description: string }[]
  /** It asks something of a sandbox, which may refuse, fail or be gone. */
  mayFail?: boolean
  handle(fleet: Fleet, asked: Asked<Query, Body>): Promise<Reply | Response>
}

/** One route: what it takes, what it answers, and who does it. Both the routes and the document are made from these. */
export type Endpoint = Omit<Definition<unknown, unknown>, 'handle'> & {
  serve(fleet: Fleet, c: WebContext): Promise<Response>
}

type Nothing = Record<never, never>
const noBody = reader(z.strictObject({}))
const noQuery = queryReader(z.strictObject({}))
const keyHeader = z.object({ 'Idempotency-Key': TeardownRequest.shape.idempotencyKey })

export function defineEndpoint<Query = Nothing, Body = Nothing>(defined: Definition<Query, Body>): Endpoint {
  const { handle, ...described } = defined
  const { method, path, query = noQuery, body = noBody, isKeyed, answers } = described
  return {
    ...described,
    async serve(fleet, c) {
      const { signal } = c.req.raw
      try {
        const reply = await handle(fleet, {
          c,
          id: c.req.param('id') ?? '',
          query: query.read(new URL(c.req.url).searchParams) as Query,
          body: (method === 'GET' ? {} : body.read(await readBody(c))) as Body,
          key: isKeyed ? readKey(c) : {},
          signal,
        })
        if (reply instanceof Response) return reply
        const schema = answers[reply.status]
        if (!schema) throw new Error(`${method} ${path} has no schema for ${reply.status}`)
        return c.json(encode(schema, reply.body) as object, reply.status, reply.headers)
      } catch (error) {
        // Nobody reads this any more. What was accepted is carried out all the same.
        if (signal.aborted && error === signal.reason) return new Response(null, { status: 499 })
        const explained = explain(error)
        if (!explained) throw error
        return problem(c, explained.status, explained.told)
      }
    },
  }
}

function readKey(c: WebContext): { idempotencyKey?: string | undefined } {
  const given = c.req.header('idempotency-key')
  if (given === undefined) return {}
  return { idempotencyKey: parse(keyHeader, { 'Idempotency-Key': given }, '(headers)')['Idempotency-Key'] }
}
