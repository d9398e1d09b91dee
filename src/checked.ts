import type { z } from 'zod'
import { SandmanError } from './errors.ts'

/** What is wrong with which field. */
export type FieldProblem = { field: string; message: string }

/** More of them helps nobody. */
const UNKNOWN_SHOWN = 20
const NAME_SHOWN = 100

/** A value as its schema reads it, or all that is wrong with it, for whoever has written it. `whole` is what it is called itself. */
export function check<Schema extends z.ZodType>(
  schema: Schema,
  given: unknown,
  whole: string,
): { value: z.output<Schema>; problems?: undefined } | { value?: undefined; problems: FieldProblem[] } {
  const { success, data, error } = schema.safeParse(given, { error: inWords })
  return success ? { value: data } : { problems: error.issues.flatMap((issue) => tell(issue, whole)) }
}

/** The same of a request, or an error that names every field that is wrong. */
export function parse<Schema extends z.ZodType>(schema: Schema, given: unknown, whole: string): z.output<Schema> {
  const { value, problems } = check(schema, given, whole)
  if (problems) throw invalid(problems)
  return value
}

export function invalid(problems: FieldProblem[]): SandmanError {
  const told = problems.map(({ field, message }) => `${field}: ${message}`).join('; ')
  return new SandmanError('request_invalid', `The request cannot be read: ${told}.`, { details: { problems } })
}

function tell(issue: z.core.$ZodIssue, whole: string): FieldProblem[] {
  const at = (path: readonly PropertyKey[]) => path.map(String).join('.').slice(0, NAME_SHOWN) || whole
  if (issue.code === 'unrecognized_keys')
    return issue.keys
      .slice(0, UNKNOWN_SHOWN)
      .map((key) => ({ field: at([...issue.path, key]), message: 'there is no such field' }))
  // Of a key, the issue itself says no more than that it is invalid.
  const message = issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message
  return [{ field: at(issue.path), message }]
}

/** What a schema says of a value when it has no words of its own for it. Undefined leaves it to the library's. */
function inWords(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.input === undefined && issue.code !== 'invalid_key') return 'is missing'
  if (issue.code === 'invalid_type') return `must be ${TYPES[issue.expected] ?? `of type ${issue.expected}`}`
  if (issue.code === 'invalid_value') return `must be one of ${issue.values.map(String).join(', ')}`
  if (issue.code === 'too_small') return bounded(issue.origin, 'at least', Number(issue.minimum))
  if (issue.code === 'too_big') return bounded(issue.origin, 'at most', Number(issue.maximum))
  return undefined
}

const TYPES: Record<string, string> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
}
const COUNTED: Record<string, string> = { string: 'characters', array: 'entries' }

function bounded(origin: string, bound: 'at least' | 'at most', many: number): string {
  const counted = COUNTED[origin]
  if (!counted) return `must be ${bound} ${many}`
  return bound === 'at least' && many === 1 ? 'must not be empty' : `must have ${bound} ${many} ${counted}`
}
