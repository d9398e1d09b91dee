import { readFile } from 'node:fs/promises'
import path from 'node:path'

export const ROOT = path.resolve(import.meta.dirname, '../..')

export type Instruction = { name: string; words: string[]; text: string }

/** The Dockerfile as a list of stages, each a list of instructions. What stands before the first stage is the first of them. */
export async function readDockerfile(): Promise<Instruction[][]> {
  const text = await readFile(path.join(ROOT, 'Dockerfile'), 'utf8')
  const stages: Instruction[][] = [[]]
  for (const line of text.replaceAll('\\\n', ' ').split('\n')) {
    const [, name, rest = ''] = /^([A-Z]+) (.+)$/.exec(line) ?? []
    if (name === undefined) continue
    if (name === 'FROM') stages.push([])
    stages.at(-1)?.push({ name, words: rest.split(/ +/), text: rest })
  }
  return stages
}

/** What the last stage says about how the image is run. */
export async function readImage(): Promise<{
  entrypoint: string[]
  user: string
  env: string[]
  healthcheck: string[]
}> {
  const last = (await readDockerfile()).at(-1) ?? []
  const find = (name: string) => last.find((each) => each.name === name)?.text ?? ''
  return {
    entrypoint: JSON.parse(find('ENTRYPOINT')) as string[],
    user: find('USER'),
    env: last.filter(({ name }) => name === 'ENV').map(({ text }) => text),
    healthcheck: JSON.parse(/CMD (\[.+\])$/.exec(find('HEALTHCHECK'))?.[1] ?? 'null') as string[],
  }
}
