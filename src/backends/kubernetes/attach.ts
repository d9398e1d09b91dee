import type { IncomingMessage } from 'node:http'
import { type Agent, BackendError, type Call, type Piece } from '../backend.ts'
import { LogReader, positionOf } from '../log-position.ts'
import type { Cluster } from './cluster.ts'
import { Refusal, Unreadable } from './errors.ts'
import { LogLines } from './log.ts'
import { incarnationOf, type Pod } from './pod.ts'
import { podsPath } from './pods.ts'
import { ownStatus } from './status.ts'

const PIECE_BYTES_MAX = 64 * 1024
/** How long after the end of its output a container may be said to run. */
const END_MS_MAX = 5_000
const LOOK_AGAIN_MS = 250
const NS_A_SECOND = 1_000_000_000n
const MS_A_SECOND = 1_000
/** In the output itself, because whoever reads that has to know. */
const LOST = Buffer.from('\n[sandman: output is missing here: its node has thrown away the older part of the log]\n')

/** Undefined when it sleeps. */
type Find = () => Promise<{ pod: Pod } | undefined>

/** The output of the agent that a sandbox was made with: the log of its container. */
export async function* attachOwn(
  cluster: Cluster,
  pod: Pod,
  find: Find,
  agent: Agent,
  cursor: string | undefined,
  call: Call,
): AsyncGenerator<Piece> {
  const standing = standingOf(pod, agent)
  if (standing === 'not meant') return
  const reader = new LogReader(positionOf(containerOf(pod), cursor))
  let now: Standing = standing
  if (now === 'speaking') {
    yield* pieces(await open(cluster, pod, reader, { follow: true }, call), reader)
    now = await whenSettled(cluster, find, agent, call)
    if (now !== 'ended') return // the stream has broken, or what speaks is not what was meant
  }
  // It says nothing more: what is read from here on is all there is.
  yield* pieces(await open(cluster, pod, reader, { follow: false }, call), reader)
  if (!reader.hasCaughtUp)
    throw new BackendError('sandbox_unreachable', `The log of ${agent.ref} ends before ${JSON.stringify(cursor)}`)
  yield { bytes: new Uint8Array(), cursor: reader.cursor, isLast: true }
}

type Standing = 'speaking' | 'ended' | 'not meant'

function standingOf(pod: Pod, agent: Agent): Standing {
  const { is } = ownStatus(pod, agent)
  return is === 'running' ? 'speaking' : is === 'terminated' ? 'ended' : 'not meant'
}

/** A container has ended some seconds before that is shown (incident S). */
async function whenSettled(cluster: Cluster, find: Find, agent: Agent, call: Call): Promise<Standing> {
  for (const until = Date.now() + END_MS_MAX; ; ) {
    const housing = await find()
    if (!housing) return 'not meant'
    const standing = standingOf(housing.pod, agent)
    if (standing !== 'speaking' || Date.now() > until) return standing
    await cluster.watch.change(housing.pod.name, LOOK_AGAIN_MS, call)
  }
}

/** The log of one container of one pod, which no other one goes on with. */
function containerOf(pod: Pod): string {
  return incarnationOf(pod).replace('.', '-')
}

async function open(
  { api, home }: Cluster,
  { name, agent }: Pod,
  reader: LogReader,
  { follow }: { follow: boolean },
  call: Call,
): Promise<IncomingMessage> {
  reader.rewind()
  // Whatever is given here, nodes take it in whole seconds.
  const seconds = Number(reader.sinceNs / NS_A_SECOND)
  const sinceTime = seconds === 0 ? undefined : new Date(seconds * MS_A_SECOND).toISOString()
  const path = `${podsPath(home)}/${name}/log`
  const query = { container: agent.name, follow, timestamps: true, sinceTime }
  const log = await api.stream({ path, query }, call).catch((error: unknown) => {
    if (!(error instanceof Refusal && error.own && error.status === 400)) throw error
    throw new BackendError('sandbox_unreachable', `There is no log of ${name} yet: ${error.text}`)
  })
  if (log.headers['content-type']?.startsWith('text/plain')) return log
  log.destroy()
  throw new Unreadable(`GET ${path}`, `it is ${log.headers['content-type']}`)
}

/** As much as has come at once is one piece. */
async function* pieces(log: IncomingMessage, reader: LogReader): AsyncGenerator<Piece> {
  const lines = new LogLines({ mayBeginWithin: reader.sinceNs > 0n })
  try {
    for await (const chunk of log as AsyncIterable<Buffer>) {
      let fresh: Buffer[] = []
      let length = 0
      for (const line of lines.read(chunk)) {
        let bytes = reader.read(line)
        if (reader.hasLostItsPlace) {
          reader.beginAnew()
          fresh.push(LOST)
          bytes = line.bytes
        }
        if (bytes.length === 0) continue
        fresh.push(bytes)
        length += bytes.length
        if (length < PIECE_BYTES_MAX / 2) continue
        yield { bytes: Buffer.concat(fresh), cursor: reader.cursor }
        fresh = []
        length = 0
      }
      if (length > 0) yield { bytes: Buffer.concat(fresh), cursor: reader.cursor }
    }
  } finally {
    log.destroy()
  }
}
