import { z } from 'zod'

/** A request of the library comes in parts: most of it in the body, how long to wait in the URL, the key in a header. */
const ELSEWHERE = ['wait', 'idempotencyKey', 'signal'] as const
type Elsewhere = (typeof ELSEWHERE)[number]

export function bodyPart<Shape extends z.ZodRawShape>(
  request: z.ZodObject<Shape>,
): z.ZodObject<Omit<Shape, Elsewhere>, z.core.$strict> {
  return z.strictObject(without(request.shape, ELSEWHERE))
}

export function waitPart<Wait extends z.ZodType>(request: z.ZodObject<{ wait: Wait }>) {
  return z.strictObject({ wait: request.shape.wait })
}

export function without<Shape extends z.ZodRawShape, Name extends PropertyKey>(
  shape: Shape,
  names: readonly Name[],
): Omit<Shape, Name> {
  const left = Object.entries(shape).filter(([name]) => !names.includes(name as Name))
  return Object.fromEntries(left) as unknown as Omit<Shape, Name>
}
