import { z } from 'zod'
import { invalid, parse } from '../../checked.ts'
import { snake } from '../../snake-case.ts'
import { isRecord, type Reader, wireSchema } from './request-schema.ts'

export type QueryReader<Read> = Reader<Read> & {
  /** Each parameter with what it may be; `metadata.*` stands for all that begin so. */
  readonly parameters: { name: string; schema: z.ZodType; isRequired: boolean }[]
}

/**
 * Reads the part of a URL behind the question mark by the library's own schema. All of it is text there: numbers and yes or no are
 * read from it, and a field that has names of its own is written as `metadata.user=u1`.
 */
export function queryReader<Shape extends z.ZodRawShape>(
  library: z.ZodObject<Shape>,
): QueryReader<z.output<z.ZodObject<Shape>>> {
  const fields = Object.entries(library.shape as unknown as Record<string, z.ZodType>).map(([name, field]) => ({
    library: name,
    name: snake(name),
    schema: wireSchema(field),
    plain: unwrap(field),
  }))
  const schema = z.strictObject(Object.fromEntries(fields.map(({ name, schema }) => [name, schema])))
  return {
    schema,
    parameters: fields.map(({ name, schema, plain }) => ({
      name: isRecord(plain) ? `${name}.*` : name,
      schema: isRecord(plain) ? z.string() : schema,
      isRequired: !schema.safeParse(undefined).success,
    })),
    read(given) {
      const values: Record<string, unknown> = Object.create(null)
      for (const [key, text] of given as URLSearchParams) {
        const [, prefix = '', rest = ''] = /^([^.]+)\.(.+)$/s.exec(key) ?? []
        const record = fields.find(({ name, plain }) => name === prefix && isRecord(plain))
        const field = fields.find(({ name, plain }) => name === key && !isRecord(plain))
        const into = record ? ((values[prefix] as Record<string, unknown>) ?? Object.create(null)) : values
        const name = record ? rest : key
        if (name in into) throw invalid([{ field: key, message: 'must be given once' }])
        into[name] = field ? fromText(field.plain, text) : text
        if (record) values[prefix] = into
      }
      const read = parse(schema, { ...values }, '(query)')
      return Object.fromEntries(fields.map(({ library, name }) => [library, read[name]])) as z.output<
        z.ZodObject<Shape>
      >
    },
  }
}

function unwrap(schema: z.ZodType): z.ZodType {
  return schema instanceof z.ZodOptional || schema instanceof z.ZodDefault
    ? unwrap(schema.unwrap() as z.ZodType)
    : schema
}

/** What cannot be read stays text, and its schema says what it should have been. */
function fromText(schema: z.ZodType, text: string): unknown {
  if (schema instanceof z.ZodNumber) return /^-?\d{1,15}$/.test(text) ? Number(text) : text
  if (schema instanceof z.ZodBoolean) return text === 'true' ? true : text === 'false' ? false : text
  return text
}
