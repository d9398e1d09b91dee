import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { startProxy } from '../support/proxy.ts'
import { SandmanProcess } from '../support/sandman.ts'
import type { World } from '../support/world.ts'
import { EXAMPLES, run } from './run.ts'
import { asking, type Drive, driving, SECRET, walkLostPreview, walkPreview } from './walk.ts'

const PROBE = `
import sys
from importlib.util import find_spec
if sys.version_info < (3, 10): sys.exit('it is older than 3.10')
print(sys.executable, 'fastapi' if find_spec('fastapi') and find_spec('uvicorn') else 'bare', sep='\\n')`

type Python = { program: string; hasFastApi: boolean }

/**
 * The Python that the README of the example makes, or the one of this machine. A machine that has only Node need not have one; then
 * that is said plainly, because nothing of the example was tried.
 */
export async function findPython(): Promise<Python | undefined> {
  const whyNot: string[] = []
  for (const program of [path.join(EXAMPLES, 'fastapi/.venv/bin/python'), 'python3']) {
    try {
      const { stdout } = await promisify(execFile)(program, ['-c', PROBE], { timeout: 30_000 })
      const [executable = program, has] = stdout.trim().split('\n')
      if (has !== 'fastapi')
        process.stderr.write(`The FastAPI app itself did not run: ${program} has no fastapi and uvicorn.\n`)
      return { program: executable, hasFastApi: has === 'fastapi' }
    } catch (error) {
      const { message, stderr } = error as Error & { stderr?: string }
      whyNot.push(`${program}: ${(stderr || message).trim().split('\n').at(-1)}`)
    }
  }
  process.stderr.write(`The FastAPI example did not run: there is no Python 3.10 or newer (${whyNot.join('; ')}).\n`)
  return undefined
}

const script = (name: string) => path.join(EXAMPLES, 'fastapi', name)

/** The half of it that needs nothing but Python is tried by itself: it asks a real web process. */
export function tryPython({ program, hasFastApi }: Python, world: () => World): void {
  async function startWeb(): Promise<string> {
    const web = new SandmanProcess(['web'], {
      env: { DATABASE_URL: world().home.databaseUrl, PORT: '0', SANDMAN_TOKENS: `app:operate:${SECRET}` },
    })
    return (await web.logged('process.started')).url as string
  }
  const as = (url: string) => ({ SANDMAN_URL: url, SANDMAN_SECRET: SECRET })

  test('asks over HTTP for previews that sleep, and reads on where a stream of output was cut', async () => {
    const proxy = await startProxy(await startWeb())
    const ask = (...args: string[]) => run(program, [script('previews.py'), ...args], as(proxy.url))
    const drive: Drive = async (verb, project, click) => {
      const { printed, complaints } = await ask(verb, project, ...(click === undefined ? [] : [click])).ended
      expect(complaints).toBe('')
      return JSON.parse(printed)
    }
    const id = await walkLostPreview(world(), drive, 'made-with-python')

    const printing = 'echo one; until test -e go; do sleep 0.1; done; echo two'
    const { says, ended } = ask('run', 'made-with-python', 'sh', '-c', printing)
    await says(/one/)
    proxy.cut()
    await world().fleet.execute(id, { command: ['touch', 'go'], wait: '30s' })
    expect(await ended).toEqual({ code: 0, printed: 'one\ntwo\n', complaints: '' })

    await proxy.refuse()
    const away = await drive('pause', 'made-with-python', 'click-9')
    expect(away).toMatchObject({ status: 503, body: { state: 'failed', offer: 'retry' } })
    await proxy.close()
  })

  const compiles = async () => {
    const compile = `compile(open(${JSON.stringify(script('app.py'))}).read(), 'app.py', 'exec')`
    expect(await run(program, ['-c', compile]).ended).toEqual({ code: 0, printed: '', complaints: '' })
  }

  const serves = async () => {
    const serve = ['-m', 'uvicorn', '--app-dir', script('.'), '--port', '0', 'app:app']
    const { child, ended, says } = run(program, serve, as(await startWeb()))
    const url = await says(/(http:\/\/127\.0\.0\.1:\d+)/)
    await walkPreview(world(), driving(url), 'made-with-fastapi')
    const body = JSON.stringify({ command: ['sh', '-c', 'echo good morning'] })
    const answer = await asking(url)('/projects/made-with-fastapi/run', { method: 'POST', body })
    expect(await answer.text()).toBe('good morning\n')
    child.kill('SIGTERM')
    expect((await ended).complaints).toContain('Finished server process')
  }

  if (hasFastApi) test('is an app that serves them, and streams what is printed', serves)
  else test('has an app that can be compiled, and was not run, because there is no FastAPI here', compiles)
}
