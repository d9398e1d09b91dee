import { execFile } from 'node:child_process'
import { access, constants, mkdtemp, readdir, rm, rmdir, writeFile } from 'node:fs/promises'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { findOrInstall, findProgram } from '../../../proof/debian.ts'
import { ServiceFailed, startService } from '../../../src/embedded/service.ts'
import { importImage } from './image.ts'

const run = promisify(execFile)

const PREFIX = 'sandman-docker-'

export type TestEngine = { socketPath: string; stop(): Promise<void> }

/**
 * An engine for this run of the tests, with the image `sandman-test` on it. Or a sentence that says why there is none: then the
 * tests that need one did not run.
 */
export async function findEngine(): Promise<TestEngine | { missing: string }> {
  const started = whyNotPrivate() ?? (await startEngine().catch((error: unknown) => whyNotStarted(error)))
  if (typeof started !== 'string') return started
  const refused = started
  const { DOCKER_HOST = '' } = process.env
  const socketPath = /^unix:\/\/(.+)$/.exec(DOCKER_HOST)?.[1]
  const busybox = socketPath && (await findProgram('busybox'))
  if (!socketPath || !busybox)
    return {
      missing: `${refused}, and DOCKER_HOST does not name the socket of one to use with a static busybox at hand`,
    }
  await importImage(socketPath, busybox)
  return { socketPath, stop: async () => {} }
}

/** As in a container that may not mount anything, or on a system without Debian's packages. */
function whyNotStarted(error: unknown): string {
  const [first] = (error instanceof Error ? error.message : String(error)).split('\n')
  return `a Docker engine of the tests' own could not be started (${first})`
}

function whyNotPrivate(): string | undefined {
  if (process.platform !== 'linux')
    return `a Docker engine of the tests' own is started on Linux, and this is ${process.platform}`
  return process.getuid?.() === 0 ? undefined : "a Docker engine of the tests' own is started by root only"
}

/**
 * A private `dockerd`, which shares nothing with one that may be on this machine: folders, socket, cgroup and mounts of its own, and
 * no network. It ends with this process, however that ends.
 */
async function startEngine(): Promise<TestEngine> {
  const [dockerd, busybox, runsc] = await installed()
  const folder = await mkdtemp(path.join(os.tmpdir(), PREFIX))
  const socketPath = path.join(folder, 'docker.sock')
  const cgroup = path.basename(folder)
  await writeFile(
    path.join(folder, 'daemon.json'),
    JSON.stringify(await configOf({ folder, socketPath, cgroup, dockerd, runsc })),
  )
  const start = () =>
    startService({
      // Its mounts vanish with its last process.
      command: '/usr/bin/unshare',
      args: ['--mount', '--propagation', 'private', dockerd, '--config-file', path.join(folder, 'daemon.json')],
      cwd: folder,
      env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' },
      uid: undefined,
      gid: undefined,
      readyText: 'API listen on',
      stopSignal: 'SIGTERM',
      logFile: undefined,
      removeAfter: [folder],
    })
  const service = await start().catch(async (error: unknown) => {
    await rm(folder, { recursive: true, force: true })
    throw error instanceof ServiceFailed ? new Error(`dockerd did not start:\n${error.output}`) : error
  })
  const stop = async () => {
    // It would give each of them some seconds to end by itself.
    await removeContainers(socketPath).catch(() => {})
    await service.stop()
    await removeCgroups()
  }
  await importImage(socketPath, busybox).catch(async (error: unknown) => {
    await stop()
    throw error
  })
  return { socketPath, stop }
}

type Asked = { folder: string; socketPath: string; cgroup: string; dockerd: string; runsc: string | undefined }

async function configOf({ folder, socketPath, cgroup, dockerd, runsc }: Asked): Promise<object> {
  const { stdout } = await run(dockerd, ['--version'])
  const major = Number(/version (\d+)/.exec(stdout)?.[1] ?? 0)
  return {
    'data-root': path.join(folder, 'data'),
    'exec-root': path.join(folder, 'exec'),
    pidfile: path.join(folder, 'docker.pid'),
    hosts: [`unix://${socketPath}`],
    'cgroup-parent': `/${cgroup}`,
    bridge: 'none',
    iptables: false,
    ip6tables: false,
    experimental: true,
    // Old ones keep their identity beside the machine's configuration, and two of them would be one.
    ...(major < 23 && { 'deprecated-key-path': path.join(folder, 'key.json') }),
    ...(runsc && { runtimes: { runsc: { path: runsc, runtimeArgs: ['--ignore-cgroups', '--network=none'] } } }),
  }
}

async function installed(): Promise<[dockerd: string, busybox: string, runsc: string | undefined]> {
  const look = async () => {
    const [dockerd, busybox] = await Promise.all([findProgram('dockerd'), findProgram('busybox')])
    return dockerd && busybox ? ([dockerd, busybox, await findProgram('runsc')] as const) : undefined
  }
  const found = await findOrInstall(look, 'docker.io', 'busybox-static', 'tini', 'runsc')
  if (!found) throw new Error('The tests need a Docker engine: install `docker.io` and `busybox-static`.')
  return [...found]
}

async function removeContainers(socketPath: string): Promise<void> {
  const all = JSON.parse(await ask(socketPath, 'GET', '/containers/json?all=1')) as { Id: string }[]
  await Promise.all(all.map(({ Id }) => ask(socketPath, 'DELETE', `/containers/${Id}?force=1&v=1`)))
}

export async function ask(socketPath: string, method: string, at: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>()
  http.request({ socketPath, path: at, method, agent: false }, resolve).on('error', reject).end()
  let said = ''
  for await (const text of (await promise).setEncoding('utf8')) said += text
  return said
}

/** They are empty by now, and nobody else would remove them: neither this run's, nor those of one that was killed. */
async function removeCgroups(): Promise<void> {
  const root = '/sys/fs/cgroup'
  for (const controller of ['', ...(await readdir(root).catch(() => []))]) {
    const names = await readdir(path.join(root, controller)).catch(() => [])
    for (const name of names.filter((each) => each.startsWith(PREFIX)))
      if (!(await isThere(path.join(os.tmpdir(), name)))) await rmdir(path.join(root, controller, name)).catch(() => {})
  }
}

const isThere = (file: string, mode = constants.F_OK) =>
  access(file, mode).then(
    () => true,
    () => false,
  )
