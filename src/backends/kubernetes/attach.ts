import type { IncomingMessage } from 'node:http'
import { type Agent, BackendError, type Call, type Piece } from '../backend.ts'
import { LogReader, positionOf } from '../log-position.ts'
import { inPieces } from '../pieces.ts'
import type { Cluster } from './cluster.ts'
import { Refusal, Unreadable } from './errors.ts'
import { LogLines } from './log.ts'
import { incarnationOf, type Pod } from './pod.ts'
import { podsPath } from './pods.ts'
import { ownStatus } from './status.ts'

/** How long it is waited for that a container is said to have ended whose output has. Whoever reads it waits for longer. */
const END_MS_MAX = 2_000
/** Where nobody tells of changes. */
const LOOK_AGAIN_MS = 250
/** So often the log of a container that has ended is read until it is the same twice. */
const READINGS_MAX = 4
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
    const log = await openMeant(cluster, pod, find, reader, { follow: true }, call)
    if (!log) return
    yield* pieces(log, reader)
    now = await whenSettled(cluster, find, agent, call)
    if (now !== 'ended') return // the stream has broken, or what speaks is not what was meant
  }
  // It says nothing more. But a log that is cut on its way may end as if it were whole: what ends twice at the same byte is.
  let isSecond = standing === 'speaking'
  for (let reading = 0; reading < READINGS_MAX; reading++) {
    let brought = 0
    const log = await openMeant(cluster, pod, find, reader, { follow: false }, call)
    if (!log) return
    for await (const piece of pieces(log, reader)) {
      brought += piece.bytes.length
      yield piece
    }
    if (!reader.hasCaughtUp)
      throw new BackendError('sandbox_unreachable', `The log of ${agent.ref} ends before ${JSON.stringify(cursor)}`)
    if (brought === 0 && isSecond) return yield { bytes: new Uint8Array(), cursor: reader.cursor, isLast: true }
    isSecond = true
  }
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
    const leftMs = until - Date.now()
    if (standing !== 'speaking' || leftMs <= 0) return standing
    const { watch } = cluster
    const { name } = housing.pod
    await watch.change(name, watch.get(name) ? leftMs : Math.min(leftMs, LOOK_AGAIN_MS), call)
  }
}

/** The log of one container of one pod, which no other one goes on with. */
function containerOf(pod: Pod): string {
  return incarnationOf(pod).replace('.', '-')
}

/**
 * Undefined when it may be another pod's: a log is asked for by the name of its pod, which the next one may have. So the pod is
 * looked at once the log is open: if it is still the one that is meant, the log is its own.
 */
async function openMeant(
  cluster: Cluster,
  pod: Pod,
  find: Find,
  reader: LogReader,
  how: { follow: boolean },
  call: Call,
): Promise<IncomingMessage | undefined> {
  const log = await open(cluster, pod, reader, how, call)
  log.once('error', () => {}) // whoever reads it is told
  let isMeant = false
  try {
    const housing = await find()
    isMeant = housing !== undefined && incarnationOf(housing.pod) === incarnationOf(pod)
    return isMeant ? log : undefined
  } finally {
    if (!isMeant) log.destroy()
  }
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

async function* pieces(log: IncomingMessage, reader: LogReader): AsyncGenerator<Piece> {
  const lines = new LogLines({ mayBeginWithin: reader.sinceNs > 0n })
  let isLost = false
  function* freshOf(chunk: Buffer): Generator<Buffer> {
    for (const line of lines.read(chunk)) {
      let bytes = reader.read(line)
      if (reader.hasLostItsPlace) {
        bytes = reader.beginAnew(line)
        isLost = true
      }
      if (bytes.length === 0) continue
      // With the first that is new: a cursor before that one would be told of it again.
      yield isLost ? Buffer.concat([LOST, bytes]) : bytes
      isLost = false
    }
  }
  try {
    for await (const chunk of log as AsyncIterable<Buffer>) yield* inPieces(freshOf(chunk), reader)
  } finally {
    log.destroy()
  }
}
