import type { Spec } from '../spec.ts'
import type { Container, HostConfig } from './containers.ts'

export type Options = {
  /** The network that sandboxes are in, as Docker calls it. Defaults to the engine's own. */
  network?: string | undefined
  /** Which of the engine's runtimes runs them. Defaults to the engine's own. */
  runtime?: string | undefined
}

/** So many processes and threads are plenty for an agent, and too few to bring a machine down. */
const PIDS_MAX = 4_096
/** A log that nobody ever reads through Sandman. */
const SIDECAR_LOG = { 'max-size': '10m', 'max-file': '2' }
/**
 * An agent's output is kept until its sandbox ends: a log that forgets its beginning would lose what nobody has read yet. So much
 * that it never does.
 */
const AGENT_LOG = { 'max-size': '1000000g', 'max-file': '1', compress: 'false' }

/** Only to be there. The init beside it reaps what commands leave behind. */
const IDLING = ['sh', '-c', 'while :; do sleep 3600; done']

/** What a container is made with, besides its image and its labels. */
export function agentConfig(spec: Spec, { network, runtime, logs }: Options & { logs: string[] }): object {
  const { agent, wake } = spec
  const isPublished = wake?.previewPort !== undefined && canPublish(network)
  const port = `${wake?.previewPort}/tcp`
  return {
    ...programOf(agent?.command ?? IDLING, agent?.env),
    ...(isPublished && { ExposedPorts: { [port]: {} } }),
    HostConfig: {
      ...wallsOf(spec, runtime),
      ...(network !== undefined && { NetworkMode: network }),
      ...(isPublished && { PortBindings: { [port]: [{ HostIp: '127.0.0.1', HostPort: '' }] } }),
      ...logOf(logs),
    },
  }
}

/** Of the same image, and in the same network. */
export function sidecarConfig(spec: Spec, { runtime }: Options): ((agent: Container) => { Image: string }) | undefined {
  const sidecar = spec.agent?.sidecar
  return (
    sidecar &&
    (({ id, inspected }) => ({
      ...programOf(sidecar.command, sidecar.env),
      Image: inspected.Image,
      HostConfig: {
        ...wallsOf(spec, runtime),
        LogConfig: { Type: 'json-file', Config: SIDECAR_LOG },
        NetworkMode: `container:${id}`,
      },
    }))
  )
}

/** Instead of what the image would run. */
function programOf(command: readonly string[], env: Record<string, string> = {}) {
  return { Entrypoint: command, Cmd: [], Env: Object.entries(env).map(([name, value]) => `${name}=${value}`) }
}

function wallsOf({ limits, readOnlyRoot }: Spec, runtime: string | undefined): HostConfig {
  const { memoryBytesMax, cpusMax } = limits ?? {}
  return {
    // As much swap as memory would be twice the memory that was asked for.
    ...(memoryBytesMax !== undefined && { Memory: memoryBytesMax, MemorySwap: memoryBytesMax }),
    ...(cpusMax !== undefined && { NanoCpus: Math.round(cpusMax * 1e9) }),
    ...(runtime !== undefined && { Runtime: runtime }),
    ...(readOnlyRoot && { ReadonlyRootfs: true, Tmpfs: { '/tmp': 'mode=1777', '/run': 'mode=755' } }),
    PidsLimit: PIDS_MAX,
    CapDrop: ['ALL'],
    SecurityOpt: ['no-new-privileges'],
    RestartPolicy: { Name: 'no' },
    // It reaps, and hands signals on: an agent that is the first process of a container would have to do both.
    Init: true,
  }
}

/** The engine's format of its own keeps bytes as they are; json-file makes of what is not UTF-8 something else. */
function logOf(logs: string[]): Pick<HostConfig, 'LogConfig'> {
  if (logs.includes('local')) return { LogConfig: { Type: 'local', Config: AGENT_LOG } as { Type: string } }
  return logs.includes('json-file') ? { LogConfig: { Type: 'json-file' } } : {}
}

/** Others have either no network of their own, or one in which nothing is published. */
function canPublish(network: string | undefined): boolean {
  return network === undefined || !/^(none|host|container:)/.test(network)
}
