import { SandmanError } from '../../errors.ts'
import type { WebContext } from '../routes.ts'

/** More than any of our forms has. */
const FORM_CHARS_MAX = 131_072

/** What a form sends. */
export async function readForm(c: WebContext): Promise<Record<string, string>> {
  const text = await c.req.text()
  if (text.length > FORM_CHARS_MAX)
    throw new SandmanError('request_invalid', `A form must not be longer than ${FORM_CHARS_MAX} characters.`)
  return Object.fromEntries(new URLSearchParams(text))
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
