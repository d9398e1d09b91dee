import type { Call } from '../backend.ts'
import { hash } from '../hash.ts'
import type { Engine } from './engine.ts'
import { Unreadable } from './errors.ts'
import type { Home } from './names.ts'

/** An engine, and what it and the fleet are called there. */
export type Site = { engine: Engine; home: Home }

type Info = {
  ID: string
  Name: string
  DockerRootDir: string
  SystemTime: string
  ExperimentalBuild?: boolean
  Plugins?: { Log?: string[] | null }
}

export async function readInfo(engine: Engine, call: Call): Promise<Info> {
  const path = '/info'
  const info = await engine.json<Info>({ method: 'GET', path }, call)
  if (typeof info.ID !== 'string' || typeof info.SystemTime !== 'string')
    throw new Unreadable(path, JSON.stringify(info))
  return info
}

/** Docker keeps an id for as long as its data. Podman has a new one in every answer, and is known by where its data is. */
export async function engineName(engine: Engine, call: Call): Promise<string> {
  const info = await readInfo(engine, call)
  const { Components = [] } = await engine.json<{ Components?: { Name: string }[] }>(
    { method: 'GET', path: '/version' },
    call,
  )
  const isPodman = Components.some(({ Name }) => /podman/i.test(Name))
  const id = isPodman ? `${info.Name}:${info.DockerRootDir}` : info.ID
  return hash(id, 8)
}
