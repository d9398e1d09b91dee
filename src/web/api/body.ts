import { RequestProblem } from '../problem.ts'
import type { WebContext } from '../routes.ts'

/** Metadata may be nested 32 levels deep, and nothing else is nested at all. */
const LEVELS_MAX = 64

/** The JSON of a request. None at all is an empty one. How much it may be is seen to before any route. */
export async function readBody(c: WebContext): Promise<unknown> {
  const bytes = await c.req.arrayBuffer().catch((): never => {
    throw new RequestProblem(400, 'body_incomplete', 'The body was cut off.')
  })
  if (bytes.byteLength === 0) return {}
  requireJson(c)
  const value = parseJson(bytes)
  refuseMonsters(value)
  return value
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

function parseJson(bytes: ArrayBuffer): unknown {
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
