import { cp, mkdir } from 'node:fs/promises'
import path from 'node:path'
import { finished } from 'node:stream/promises'
import Docker from 'dockerode'
import { IMAGE } from '../support/docker/image.ts'
import { ROOT, readImage } from '../support/dockerfile.ts'

const SECOND_NS = 1_000_000_000
const STOP_S = 30

type RunningImage = {
  health(): Promise<string | undefined>
  /** The exit code of the image's health check, in an environment that is changed so. */
  checkHealth(env: Record<string, string>): Promise<number | null>
  stop(): Promise<number>
  remove(): Promise<void>
}

/**
 * What was installed, in a container that is run as the Dockerfile says. Nothing can be pulled by the engine of the tests, so the
 * programs and libraries of this machine are lent to an image that has none.
 */
export async function runAsImage(
  socketPath: string,
  app: string,
  { command, env }: { command: string[]; env: Record<string, string> },
): Promise<RunningImage> {
  const { entrypoint, user, env: ownEnv, healthcheck } = await readImage()
  const installed = path.join(app, 'node_modules/sandman')
  await mkdir(path.join(installed, 'node_modules'), { recursive: true })
  await cp(path.join(ROOT, 'deploy/container/healthcheck.mjs'), path.join(installed, 'healthcheck.mjs'))
  const lent = (from: string, to = from) => `${from}:${to}:ro`
  const pairs = (all: Record<string, string>) => Object.entries(all).map(([name, value]) => `${name}=${value}`)
  const container = await new Docker({ socketPath }).createContainer({
    Image: IMAGE,
    Entrypoint: entrypoint.map((name) => (name === 'sandman' ? '/sandman/bin/sandman.mjs' : name)),
    Cmd: command,
    User: user,
    Env: [...ownEnv, 'PATH=/node:/usr/bin:/bin', ...pairs(env)],
    Healthcheck: { Test: ['CMD', ...healthcheck], Interval: SECOND_NS, Timeout: 5 * SECOND_NS, Retries: 60 },
    HostConfig: {
      ReadonlyRootfs: true,
      NetworkMode: 'host',
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      Binds: [
        ...['/usr', '/lib', '/lib64'].map((folder) => lent(folder)),
        lent(path.dirname(process.execPath), '/node'),
        lent(installed, '/sandman'),
        lent(path.join(app, 'node_modules'), '/sandman/node_modules'),
      ],
    },
  })
  await container.start()
  return {
    health: async () => (await container.inspect()).State.Health?.Status,
    async checkHealth(changed) {
      const check = await container.exec({ Cmd: healthcheck, Env: pairs(changed), AttachStdout: true })
      await finished((await check.start({})).resume())
      return (await check.inspect()).ExitCode
    },
    async stop() {
      await container.stop({ t: STOP_S })
      return (await container.inspect()).State.ExitCode
    },
    remove: () => container.remove({ force: true, v: true }).then(() => undefined),
  }
}
