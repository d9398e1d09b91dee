import type { Call } from '../backend.ts'
import type { Site } from './site.ts'
import { findMeant } from './status.ts'

/** Where it was published; else where its network has it, for whoever is in that. */
export async function previewUrl(site: Site, ref: string, port: number, call: Call): Promise<string | undefined> {
  const { agent } = await findMeant(site, ref, call)
  const { HostConfig, NetworkSettings } = agent?.inspected ?? {}
  const published = NetworkSettings?.Ports?.[`${port}/tcp`]?.[0]?.HostPort
  if (published) return `http://127.0.0.1:${published}`
  if (HostConfig?.NetworkMode === 'host') return `http://127.0.0.1:${port}`
  const networks = Object.values(NetworkSettings?.Networks ?? {})
  const address = [NetworkSettings, ...networks].map((network) => network?.IPAddress).find(Boolean)
  return address && `http://${address}:${port}`
}
