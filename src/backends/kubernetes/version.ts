import type { Call } from '../backend.ts'
import type { Api } from './api.ts'
import { Unreadable } from './errors.ts'

/** From this version on, what runs beside an agent can be a container that the node starts before it and stops after it. */
const SIDECARS_SINCE = [1, 29] as const

const NUMBERS = /^v?(\d+)\.(\d+)/

export async function hasSidecars(api: Api, call: Call): Promise<boolean> {
  const path = '/version'
  const version = await api.json<{ gitVersion?: string }>({ path }, call)
  const [, major, minor] = NUMBERS.exec(version.gitVersion ?? '') ?? []
  if (major === undefined) throw new Unreadable(`GET ${path}`, JSON.stringify(version))
  const [sinceMajor, sinceMinor] = SIDECARS_SINCE
  return Number(major) > sinceMajor || (Number(major) === sinceMajor && Number(minor) >= sinceMinor)
}
