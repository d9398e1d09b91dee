import { SandmanError } from '../../errors.ts'
import type { WebContext } from '../routes.ts'

/** More than any of our forms has. */
const FORM_BYTES_MAX = 65_536

/** What a form sends. Read as it comes, and no further than it may be. */
export async function readForm(c: WebContext): Promise<Record<string, string>> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of c.req.raw.body ?? []) {
    size += chunk.length
    if (size > FORM_BYTES_MAX)
      throw new SandmanError('request_invalid', `A form must not be more than ${FORM_BYTES_MAX} bytes.`)
    chunks.push(chunk)
  }
  return Object.fromEntries(new URLSearchParams(Buffer.concat(chunks).toString('utf8')))
}

/** What a shell is given. */
export function shell(script: string): string[] {
  return ['sh', '-c', script]
}

/** `key=value`, one a line. Empty lines are nothing. */
export function pairs(text: string, field: string): Record<string, string> {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf('=')
      if (at <= 0) throw new SandmanError('request_invalid', `${field}: must be key=value, and not ${line.trim()}.`)
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()]
    }),
  )
}
