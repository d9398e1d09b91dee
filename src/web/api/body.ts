import { RequestProblem } from '../problem.ts'
import type { WebContext } from '../routes.ts'

/** More than any request needs: what a sandbox is made from is a command and an environment, and Linux takes 2 MiB for those. */
export const BODY_BYTES_MAX = 4 * 1024 * 1024
/** Metadata may be nested 32 levels deep, and nothing else is nested at all. */
const LEVELS_MAX = 64

/** The JSON of a request. None at all is an empty one. */
export async function readBody(c: WebContext): Promise<unknown> {
  const bytes = await readBytes(c)
  if (bytes.length === 0) return {}
  requireJson(c)
  const value = parseJson(bytes)
  refuseMonsters(value)
  return value
}

/**
 * No more of it than may be. By hand, because Hono's own `bodyLimit` makes a new request of one that does not say how long it is, as
 * `curl -X POST` does not, and that fails where a server brings a class of requests of its own.
 */
async function readBytes(c: WebContext): Promise<Buffer> {
  if (Number(c.req.header('content-length') ?? 0) > BODY_BYTES_MAX) throw tooLarge()
  const reader = c.req.raw.body?.getReader()
  const chunks: Uint8Array[] = []
  let size = 0
  for (;;) {
    const { done, value } = (await reader?.read().catch(cutOff)) ?? { done: true }
    if (done) return Buffer.concat(chunks)
    size += value.length
    if (size > BODY_BYTES_MAX) throw tooLarge()
    chunks.push(value)
  }
}

function cutOff(): never {
  throw new RequestProblem(400, 'body_incomplete', 'The body was cut off.')
}

function requireJson(c: WebContext): void {
  const [type = '', ...parameters] = (c.req.header('content-type') ?? '').toLowerCase().split(';')
  const charset = parameters.map((each) => each.trim()).find((each) => each.startsWith('charset='))
  const isUtf8 = charset === undefined || /^charset="?utf-?8"?$/.test(charset)
  const encoding = c.req.header('content-encoding') ?? 'identity'
  if (type.trim() === 'application/json' && isUtf8 && encoding === 'identity') return
  throw new RequestProblem(
    415,
    'unsupported_media_type',
    'A body must be JSON in UTF-8: send it with "Content-Type: application/json", and not compressed.',
  )
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (error) {
    // The parser's own words end with a piece of the body, which may be a secret.
    const place = / at position \d+/.exec((error as Error).message)?.[0] ?? ''
    throw new RequestProblem(400, 'malformed_json', `The body is not JSON in UTF-8${place}.`)
  }
}

/** A level after the other and never by recursion: what is sent may be nested deeper than a stack is. */
function refuseMonsters(value: unknown): void {
  let level = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > LEVELS_MAX)
      throw new RequestProblem(422, 'request_invalid', `The body is nested more than ${LEVELS_MAX} levels deep.`)
    const nested = level.filter((each) => typeof each === 'object' && each !== null) as object[]
    // It would be left out without a word by whatever copies an object after this.
    if (nested.some((each) => Object.hasOwn(each, '__proto__')))
      throw new RequestProblem(422, 'request_invalid', 'The body has a field __proto__, which is not a name.', [
        { field: '__proto__', message: 'is not a name' },
      ])
    level = nested.flatMap((each) => Object.values(each))
  }
}

function tooLarge(): RequestProblem {
  return new RequestProblem(413, 'body_too_large', `A body may have ${BODY_BYTES_MAX} bytes at most.`)
}
