import { z } from 'zod'
import { idPattern } from '../sandbox/ids.ts'

/** What Postgres can keep: its text has no NUL, and its JSON no half of a character. */
export function isStorable(value: string): boolean {
  return value.isWellFormed() && !value.includes('\0')
}

const MESSAGE_TEXT = 'must be text without NUL and without half characters'
export const text = (max: number) => z.string().min(1).max(max).refine(isStorable, MESSAGE_TEXT)

/** Linux takes 131,072 bytes for one argument. All of it is kept with a row that is read often. */
const COMMAND_BYTES_MAX = 131_072

/** A program and its arguments, of which some may be empty. */
export const command = z
  .array(z.string().refine(isStorable, MESSAGE_TEXT))
  .min(1)
  .max(256)
  .refine(([program]) => program !== '', 'must begin with the name of a program')
  .refine(
    (words) => Buffer.byteLength(words.join(' ')) < COMMAND_BYTES_MAX,
    `must be less than ${COMMAND_BYTES_MAX} bytes`,
  )

/** Linux takes 131,072 bytes for one variable, and for all of them and the command together a quarter of the stack's limit. */
const ENV_VALUE_CHARS_MAX = 65_536
const ENV_ENTRIES_MAX = 256
const env = z
  .record(
    z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be a name of letters, digits and _'),
    z.string().max(ENV_VALUE_CHARS_MAX).refine(isStorable, MESSAGE_TEXT),
  )
  .refine((all) => Object.keys(all).length <= ENV_ENTRIES_MAX, `must have at most ${ENV_ENTRIES_MAX} entries`)

/** What a sandbox is made from: kept with its row, and used again when it is respawned. */
export const Spec = z.strictObject({
  /** The provider's name for what it begins as: an image, a template. */
  template: text(512).optional(),
  /** The id of a checkpoint that its files begin as. */
  from: z.string().regex(idPattern('checkpoint'), 'must be the id of a checkpoint').optional(),
  agent: z
    .strictObject({
      command,
      env: env.optional(),
      /** A tool server that runs beside the agent, and whose life says nothing about the agent's. */
      sidecar: z.strictObject({ command, env: env.optional() }).optional(),
    })
    .optional(),
  /** What is done whenever it wakes, the first time included. */
  wake: z
    .strictObject({
      /** Shell commands, one after the other. What should stay puts itself into the background. */
      commands: z.array(text(32_768)).max(32).optional(),
      /** A port that answers HTTP once it is awake. */
      previewPort: z.int().min(1).max(65_535).optional(),
    })
    .optional(),
  limits: z
    .strictObject({
      memoryBytesMax: z
        .int()
        .min(1 << 20)
        .optional(),
      /** In cores, of which one may have a part. */
      cpusMax: z.number().min(0.01).max(1_024).optional(),
    })
    .optional(),
  /** Nothing can be written but in the folders for temporary files. */
  readOnlyRoot: z.boolean().optional(),
})

export type Spec = z.output<typeof Spec>
