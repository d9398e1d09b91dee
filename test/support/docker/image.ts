import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import http from 'node:http'
import { promisify } from 'node:util'
import { type TarEntry, tarOf } from './tar.ts'

export const IMAGE = 'sandman-test'

const run = promisify(execFile)

/** A system of one program, which is all of the usual ones. */
export async function importImage(socketPath: string, busybox: string): Promise<void> {
  const { stdout } = await run(busybox, ['--list'])
  const tools = stdout.split('\n').filter((tool) => tool !== '' && tool !== 'busybox')
  const entries: TarEntry[] = [
    ...['bin/', 'etc/', 'root/', 'run/', 'proc/', 'sys/', 'dev/'].map((name) => ({ name, folder: true as const })),
    { name: 'tmp/', mode: 0o1777, folder: true },
    { name: 'etc/passwd', mode: 0o644, content: Buffer.from('root:x:0:0:root:/root:/bin/sh\n') },
    { name: 'bin/busybox', content: await readFile(busybox) },
    ...tools.map((tool) => ({ name: `bin/${tool}`, link: 'busybox' })),
  ]
  await post(socketPath, `/images/create?fromSrc=-&repo=${IMAGE}&tag=latest`, tarOf(entries))
}

async function post(socketPath: string, path: string, body: Buffer): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>()
  http.request({ socketPath, path, method: 'POST' }, resolve).on('error', reject).end(body)
  const response = await promise
  let said = ''
  for await (const text of response.setEncoding('utf8')) said += text
  if (response.statusCode !== 200 || said.includes('"error"')) throw new Error(`The engine took no image: ${said}`)
}
