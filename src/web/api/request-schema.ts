import { z } from 'zod'
import { parse } from '../../checked.ts'
import { DURATION, parseDurationMs, printDuration } from '../../duration.ts'
import { DURATIONS } from '../../fleet/requests.ts'
import { snake } from '../../snake-case.ts'

/** Something that reads what came over the wire, and can say what it takes. */
export type Reader<Read> = { readonly schema: z.ZodType; read(given: unknown): Read }

/**
 * Reads into what the library takes, by the library's own schema: the same fields and checks, under their names on the wire, and
 * durations only as text. Names within free-form values (metadata, environments) are nobody's business.
 */
export function reader<Schema extends z.ZodObject>(library: Schema): Reader<z.output<Schema>> {
  const schema = wireSchema(library)
  return { schema, read: (given) => toLibrary(library, parse(schema, given, '(body)')) as z.output<Schema> }
}

export function wireSchema(library: z.ZodType): z.ZodType {
  if (DURATIONS.has(library)) return durationAsText(library)
  if (library instanceof z.ZodObject) {
    const fields = Object.entries(library.shape as Record<string, z.ZodType>)
    return z.strictObject(Object.fromEntries(fields.map(([name, field]) => [snake(name), wireSchema(field)])))
  }
  if (library instanceof z.ZodOptional) return wireSchema(library.unwrap() as z.ZodType).optional()
  if (library instanceof z.ZodDefault) {
    const inner = library.unwrap() as z.ZodType
    const { defaultValue } = library.def
    return wireSchema(inner).prefault(DURATIONS.has(inner) ? printDuration(defaultValue as number) : defaultValue)
  }
  // The library's first check takes anything, so that its message says more than that this is no object; in the document it is
  // one.
  return library instanceof z.ZodPipe && isRecord(library)
    ? library.meta({ type: 'object', additionalProperties: true })
    : library
}

/** Something with names of its caller's own. */
export function isRecord(schema: z.ZodType): boolean {
  return schema instanceof z.ZodRecord || (schema instanceof z.ZodPipe && isRecord(schema.def.out as z.ZodType))
}

function durationAsText(library: z.ZodType): z.ZodType {
  const { minMs = 0, maxMs = 0 } = DURATIONS.get(library) ?? {}
  const message = `must be a duration such as 90s, 15m or 24h, from ${printDuration(minMs)} to ${printDuration(maxMs)}`
  const isWithin = (text: string) => {
    const ms = parseDurationMs(text)
    return ms === undefined || (ms >= minMs && ms <= maxMs)
  }
  return z
    .string(message)
    .regex(DURATION, message)
    .refine(isWithin, message)
    .pipe(library as z.ZodType<unknown, string>)
    .describe(
      `A duration such as \`90s\`, \`15m\` or \`24h\`, from ${printDuration(minMs)} to ${printDuration(maxMs)}.`,
    )
}

/** The same value under the library's names. */
function toLibrary(library: z.ZodType, given: unknown): unknown {
  if (library instanceof z.ZodOptional || library instanceof z.ZodDefault)
    return given === undefined ? undefined : toLibrary(library.unwrap() as z.ZodType, given)
  if (!(library instanceof z.ZodObject)) return given
  const fields = Object.entries(library.shape as Record<string, z.ZodType>)
  const read = fields.map(([name, field]) => [name, toLibrary(field, (given as Record<string, unknown>)[snake(name)])])
  return Object.fromEntries(read.filter(([, value]) => value !== undefined))
}
