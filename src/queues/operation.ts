import { z } from 'zod'

/** What the jobs of all verbs carry: which operation to look at. What to do there stands in its row. */
export const operationPayload = z.strictObject({ operationId: z.string().regex(/^op_[0-9a-f]{26}$/) })

export type OperationPayload = z.output<typeof operationPayload>

export const operationKey = ({ operationId }: OperationPayload): string => operationId
