import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { ROOT, readJson } from './pack.ts'

type Registry = { url: string; asked: Set<string>; stop(): Promise<void> }

type Version = { name: string; version: string; folder: string }

/**
 * A registry of what is installed here: npm resolves and installs as it does everywhere, and the test needs no network. It remembers
 * what it was asked for.
 */
export async function startRegistry(): Promise<Registry> {
  const packages = Map.groupBy(await installed(), ({ name }) => name)
  const asked = new Set<string>()
  const server = http.createServer(async (request, response) => {
    const [, name = '', version] =
      /^\/((?:@[^/]+\/)?[^/]+)(?:\/-\/(.+)\.tar)?$/.exec(decodeURIComponent(request.url ?? '')) ?? []
    const versions = packages.get(name)
    if (!versions) return response.writeHead(404).end('{}')
    if (version === undefined) {
      asked.add(name)
      return response.end(JSON.stringify(await describe(name, versions, `http://${request.headers.host}`)))
    }
    const { folder = '' } = versions.find((each) => each.version === version) ?? {}
    // Whatever has dependencies of its own beside it: npm puts those where they belong.
    const tar = spawn('tar', ['-cf', '-', '--exclude', './node_modules', '-C', folder, '.'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    tar.stdout.pipe(response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    async stop() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

async function describe(name: string, versions: Version[], host: string): Promise<object> {
  const described = await Promise.all(
    versions.map(async ({ version, folder }) => {
      const manifest = await readJson<object>(path.join(folder, 'package.json'))
      return [version, { ...manifest, dist: { tarball: `${host}/${name}/-/${version}.tar` } }] as const
    }),
  )
  return { name, versions: Object.fromEntries(described), 'dist-tags': { latest: versions.at(-1)?.version } }
}

/** What the lock file names and this platform has. */
async function installed(): Promise<Version[]> {
  const { packages } = await readJson<{ packages: Record<string, { version: string }> }>(
    path.join(ROOT, 'package-lock.json'),
  )
  return Object.entries(packages)
    .filter(([at]) => at !== '')
    .map(([at, { version }]) => ({ name: at.replace(/^.*node_modules\//, ''), version, folder: path.join(ROOT, at) }))
    .filter(({ folder }) => existsSync(folder))
}
