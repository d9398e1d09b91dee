import { STATUS_CODES } from 'node:http'
import { z } from 'zod'
import { VERSION } from '../../version.ts'
import { FAILURE_STATUSES } from '../statuses.ts'
import * as bodies from './answers.ts'
import type { Endpoint } from './endpoint.ts'
import { ENDPOINTS } from './endpoints.ts'
import { BODY_WORDS, QUERY_WORDS } from './words.ts'

/** As much of OpenAPI 3.1 as is used here. */
export type Schema = z.core.JSONSchema.BaseSchema
export type Parameter = { name: string; in: string; required: boolean; description?: string; schema: Schema }
type Content = Record<string, { schema: Schema }>
export type Operation = {
  operationId: string
  tags: string[]
  summary: string
  description?: string
  security: Record<string, string[]>[]
  'x-scope': string
  parameters: Parameter[]
  requestBody?: { required: boolean; content: Content }
  responses: Record<string, { description: string; headers?: Record<string, unknown>; content?: Content }>
}
export type OpenApi = {
  openapi: '3.1.0'
  info: { title: string; version: string; description: string }
  servers: { url: string }[]
  tags: { name: string }[]
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Schema>; securitySchemes: Record<string, Record<string, string>> }
}

const NAMED = {
  Sandbox: bodies.SandboxBody,
  Checkpoint: bodies.CheckpointBody,
  Operation: bodies.OperationBody,
  OperationAnswer: bodies.AnswerBody,
  Execution: bodies.ExecutionBody,
  ExecutionAnswer: bodies.ExecutionAnswerBody,
  Event: bodies.EventBody,
  Why: bodies.WhyBody,
  SweepReport: bodies.SweepReportBody,
  Problem: bodies.ProblemBody,
}

const refTo = (name: string) => `#/components/schemas/${name}`
const named = z.registry<{ id: string }>()
for (const [id, schema] of Object.entries(NAMED)) named.add(schema, { id })

/** OpenAPI 3.1 of this release, printed from the schemas that requests are read by and answers are written by. */
export function openApi({ name: fleet }: { name: string }): OpenApi {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sandman',
      version: VERSION,
      description: 'Puts AI-agent sandboxes to sleep, wakes them, and never loses one.',
    },
    // Below the place of this document, wherever it is mounted.
    servers: [{ url: '.' }],
    tags: [...new Set(ENDPOINTS.map(({ tag }) => tag))].map((name) => ({ name })),
    paths: paths(),
    components: {
      schemas: namedSchemas(),
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer', description: 'A secret of SANDMAN_TOKENS.' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: `sandman-${fleet}`,
          description: 'A login in the console. Over HTTPS, its name begins with `__Host-`, or `__Secure-`.',
        },
      },
    },
  }
}

function paths(): OpenApi['paths'] {
  const paths: OpenApi['paths'] = {}
  for (const endpoint of ENDPOINTS) {
    const path = endpoint.path.replace(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [endpoint.method.toLowerCase()]: operation(endpoint) }
  }
  return paths
}

function operation(endpoint: Endpoint): Operation {
  const { name, tag, summary, description, scope, method, body } = endpoint
  const sent = method === 'POST' ? (body?.schema ?? z.strictObject({})) : undefined
  const isRequired = sent !== undefined && !sent.safeParse({}).success
  return {
    operationId: name,
    tags: [tag],
    summary,
    ...(description !== undefined && { description }),
    security: [{ token: [] }, { session: [] }],
    'x-scope': scope,
    parameters: parameters(endpoint),
    ...(sent && { requestBody: { required: isRequired, content: json(withWords(requestSchema(sent))) } }),
    responses: { ...answers(endpoint), ...problems(endpoint, sent !== undefined) },
  }
}

function parameters({ path, query, isKeyed, headers = [] }: Endpoint): Parameter[] {
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' as const },
  }))
  const inQuery = (query?.parameters ?? []).map(({ name, schema, isRequired }) => ({
    name,
    in: 'query',
    required: isRequired,
    ...(QUERY_WORDS[name] !== undefined && { description: QUERY_WORDS[name] }),
    schema: requestSchema(schema),
  }))
  const key = {
    name: 'Idempotency-Key',
    description: 'The same key with the same request is the same operation, however often it is sent.',
  }
  const inHeader = [...(isKeyed ? [key] : []), ...headers].map((header) => ({
    ...header,
    in: 'header',
    required: false,
    schema: { type: 'string' as const },
  }))
  return [...inPath, ...inQuery, ...inHeader]
}

const MEANS = { 200: 'As it is now, or as it has ended.', 202: 'Accepted: it is being carried out.' }
const LOCATION = { Location: { description: 'Where to ask how it goes on.', schema: { type: 'string' } } }
const LINK = { Link: { description: 'Where the next page is, if there is one.', schema: { type: 'string' } } }

function answers({ answers, others = [] }: Endpoint): Operation['responses'] {
  const written = Object.entries(answers).map(([status, schema]) => {
    const isPage = schema instanceof z.ZodObject && 'next_cursor' in schema.shape
    const headers = status === '202' ? LOCATION : isPage ? LINK : undefined
    const description = MEANS[status as unknown as keyof typeof MEANS]
    return [status, { description, ...(headers && { headers }), content: json(answerSchema(schema)) }]
  })
  const besides = others.map(({ status, type, description }) => [
    String(status),
    { description, ...(type !== undefined && { content: { [type]: { schema: { type: 'string' } as Schema } } }) },
  ])
  return Object.fromEntries([...written, ...besides])
}

/** What every request may be told, and what those may be told besides that carry something or ask for something. */
function problems({ path, mayFail }: Endpoint, hasBody: boolean): Operation['responses'] {
  const statuses = new Set<number>([401, 403, 422, 429, 500, 503])
  if (path.includes(':id')) statuses.add(404)
  if (hasBody) for (const status of [400, 413, 415]) statuses.add(status)
  if (mayFail) for (const status of [409, ...Object.values(FAILURE_STATUSES)]) statuses.add(status)
  const content = { 'application/problem+json': { schema: { $ref: refTo('Problem') } } }
  const told = [...statuses].sort().map((status) => [status, { description: STATUS_CODES[status] as string, content }])
  return Object.fromEntries(told)
}

function json(schema: Schema): Content {
  return { 'application/json': { schema } }
}

function requestSchema(schema: z.ZodType): Schema {
  return tidy(
    z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', override: ({ jsonSchema }) => unbind(jsonSchema) }),
  )
}

/** The same schema with what there is to say of each field, before what its schema says of itself. */
function withWords(schema: Schema, within = ''): Schema {
  const either = schema.anyOf as Schema[] | undefined
  if (either) return { ...schema, anyOf: either.map((each) => withWords(each, within)) }
  if (!schema.properties) return schema
  const fields = Object.entries(schema.properties as Record<string, Schema>).map(([name, field]) => {
    const description = [BODY_WORDS[`${within}${name}`], field.description].filter((words) => words !== undefined)
    const worded = description.length > 0 ? { description: description.join(' ') } : {}
    return [name, { ...withWords(field, `${within}${name}.`), ...worded }]
  })
  return { ...schema, properties: Object.fromEntries(fields) }
}

/** That a number is one that JavaScript can count to goes without saying. */
function unbind(schema: Schema): void {
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum
}

/** Fields may be added to answers in any release: only requests are strict on the wire. */
const override = ({ jsonSchema }: { jsonSchema: Schema }) => {
  unbind(jsonSchema)
  if (jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties
}

function answerSchema(schema: z.ZodType): Schema {
  return tidy(z.toJSONSchema(schema, { metadata: named, override }))
}

function namedSchemas(): Record<string, Schema> {
  const { schemas } = z.toJSONSchema(named, { uri: refTo, override })
  return Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, tidy(schema)]))
}

/** Without what only a document of its own needs, and with the names of this one. */
function tidy({ $schema, $id, $defs, ...schema }: Schema): Schema {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/$defs/', `"${refTo('')}`)) as Schema
}
