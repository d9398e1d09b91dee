import { spawn } from 'node:child_process'
import path from 'node:path'
import { onTestFinished } from 'vitest'

export const EXAMPLES = path.resolve(import.meta.dirname, '../../examples')

type Said = { printed: string; complaints: string }

/** An example as it stands, in a process of its own, with nothing of the environment of the tests but where programs are. */
export function run(program: string, args: string[], env: Record<string, string> = {}) {
  const { PATH, HOME, NODE_COMPILE_CACHE } = process.env
  const child = spawn(program, args, {
    cwd: EXAMPLES,
    env: { PATH, HOME, NODE_COMPILE_CACHE, PYTHONDONTWRITEBYTECODE: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const said: Said = { printed: '', complaints: '' }
  const heard = new EventTarget()
  for (const [stream, kind] of [
    [child.stdout, 'printed'],
    [child.stderr, 'complaints'],
  ] as const)
    stream.setEncoding('utf8').on('data', (text: string) => {
      said[kind] += text
      heard.dispatchEvent(new Event('said'))
    })
  let hasEnded = false
  const ended = new Promise<Said & { code: number | null }>((resolve) =>
    child.once('close', (code) => {
      hasEnded = true
      heard.dispatchEvent(new Event('said'))
      resolve({ code, ...said })
    }),
  )
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })

  /** Resolves once it has said this, with what the first group of it stands for; fails when it ends without a word of it. */
  async function says(pattern: RegExp): Promise<string> {
    for (;;) {
      const match = pattern.exec(said.printed) ?? pattern.exec(said.complaints)
      if (match) return match[1] ?? match[0]
      if (hasEnded) throw new Error(`It ended, and had never said ${pattern}: ${JSON.stringify(await ended)}`)
      await new Promise((resolve) => heard.addEventListener('said', resolve, { once: true }))
    }
  }
  return { child, ended, says }
}
