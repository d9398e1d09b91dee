import { z } from 'zod'
import { camel, type Wire } from '../../wire/naming.ts'

/** An answer's schema, if it has exactly the fields that the library's value has. A field that is missing here does not compile. */
export function describes<Value>() {
  return <Schema extends z.ZodObject>(
    schema: Schema & (Wire<Value> extends z.output<Schema> ? unknown : { 'the value has': Wire<Value> }),
    ..._none: keyof z.output<Schema> extends keyof Wire<Value>
      ? keyof Wire<Value> extends keyof z.output<Schema>
        ? []
        : [missing: Exclude<keyof Wire<Value>, keyof z.output<Schema>>]
      : [unknown: Exclude<keyof z.output<Schema>, keyof Wire<Value>>]
  ): Schema => schema
}

/** A value of the library as its schema has it on the wire. What the schema leaves free is passed on as it is. */
export function encode(schema: z.ZodType, value: unknown): unknown {
  if (value === null || value === undefined) return value
  if (value instanceof Date) return value.toISOString()
  if (schema instanceof z.ZodNullable || schema instanceof z.ZodOptional)
    return encode(schema.unwrap() as z.ZodType, value)
  if (schema instanceof z.ZodArray) return (value as unknown[]).map((each) => encode(schema.element as z.ZodType, each))
  if (!(schema instanceof z.ZodObject)) return value
  const fields = Object.entries(schema.shape as Record<string, z.ZodType>)
  return Object.fromEntries(
    fields.map(([name, field]) => [name, encode(field, (value as Record<string, unknown>)[camel(name)])]),
  )
}
