import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { ApiError, type Reply } from './replies.ts'
import type { Vm } from './vm.ts'

type FileCall = { rest: string; headers: NodeJS.Dict<string | string[]>; raw: Buffer }

export async function readFiles(vm: Vm, { rest }: FileCall): Promise<Reply> {
  const name = pathIn(rest)
  const file = within(vm, name ?? '')
  const found = await stat(file).catch(() => undefined)
  if (!found) throw new ApiError(404, `path '${name}' does not exist`)
  if (!found.isFile()) throw new ApiError(400, `path '${name}' is a directory`)
  const body = await readFile(file)
  return {
    status: 200,
    headers: { 'content-type': 'application/octet-stream', 'content-length': String(body.length) },
    body,
  }
}

/** One file as it is, or several as a form. */
export async function writeFiles(vm: Vm, { rest, headers, raw }: FileCall): Promise<Reply> {
  const named = pathIn(rest)
  const type = String(headers['content-type'])
  const parts: [string, Buffer][] = []
  if (!type.startsWith('multipart/')) parts.push([named ?? '', raw])
  else
    for (const part of (
      await new Response(new Uint8Array(raw), { headers: { 'content-type': type } }).formData()
    ).values())
      if (typeof part !== 'string') parts.push([named ?? part.name, Buffer.from(await part.arrayBuffer())])
  const written = await Promise.all(
    parts.map(async ([name, bytes]) => {
      const file = within(vm, name)
      await mkdir(path.dirname(file), { recursive: true })
      await writeFile(file, bytes)
      return { name: path.basename(file), path: file, type: 'file' }
    }),
  )
  return { status: 200, body: written }
}

const pathIn = (rest: string) => new URL(rest, 'http://x').searchParams.get('path') ?? undefined

/** What is beyond its home is this machine's, and none of its business. */
function within(vm: Vm, name: string): string {
  const file = vm.resolve(name)
  if (name === '' || !file.startsWith(`${vm.folder}/`))
    throw new ApiError(400, `path '${name}' is not below the home of the sandbox`)
  return file
}
