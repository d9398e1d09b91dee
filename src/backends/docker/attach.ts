import type { IncomingMessage } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { type Agent, BackendError, type Call, type Piece } from '../backend.ts'
import { LogReader, positionOf } from '../log-position.ts'
import { inPieces } from '../pieces.ts'
import { type Container, shortId } from './containers.ts'
import { LineReader } from './log-lines.ts'
import type { Site } from './site.ts'
import { findMeant, ownStatus } from './status.ts'

/** Nobody tells a stream that the sandbox sleeps. */
const LOOK_MS = 10_000
/** How long the engine may take to notice that a container has ended, after the last of its output. */
const END_MS_MAX = 5_000
const POLL_MS = 50

/** The output of the agent that a sandbox was made with: the log of its container. */
export async function* attachOwn(
  site: Site,
  agent: Agent,
  cursor: string | undefined,
  call: Call,
): AsyncGenerator<Piece> {
  const { standing, container } = await standingOf(site, agent, call)
  if (standing === 'not meant') return
  if (container.inspected.Config.Tty)
    throw new BackendError(
      'spec_invalid',
      `${agent.ref} has a terminal, and the log of that cannot be told byte by byte`,
    )
  const reader = new LogReader(positionOf(shortId(container.id), cursor))
  let now: Standing = standing
  if (now === 'speaking') {
    yield* follow(site, agent, container, reader, call)
    now = await whenSettled(site, agent, call)
    if (now === 'speaking' || now === 'not meant') return // the stream has broken, or what speaks is not what was meant
  }
  // It says nothing more: what is read from here on is all there is.
  const rest = await open(site, container, reader, { follow: false }, call)
  yield* pieces(rest, container, reader)
  if (!reader.hasCaughtUp)
    throw new BackendError('spec_invalid', `The log of ${agent.ref} ends before ${JSON.stringify(cursor)}`)
  if (now === 'ended') yield { bytes: new Uint8Array(), cursor: reader.cursor, isLast: true }
}

type Standing = 'speaking' | 'ended' | 'asleep' | 'not meant'

async function standingOf(site: Site, agent: Agent, call: Call): Promise<{ standing: Standing; container: Container }> {
  const instance = await findMeant(site, agent.ref, call)
  const { is } = ownStatus(instance, agent)
  const container = instance.agent
  if (!container || is === 'restarted' || is === 'none')
    return { standing: 'not meant', container: container as Container }
  return { standing: is === 'running' ? 'speaking' : is === 'terminated' ? 'ended' : 'asleep', container }
}

/** A stream ends a moment before it is known why. */
async function whenSettled(site: Site, agent: Agent, call: Call): Promise<Standing> {
  for (const until = Date.now() + END_MS_MAX; ; await delay(POLL_MS, undefined, call)) {
    const { standing } = await standingOf(site, agent, call)
    if (standing !== 'speaking' || Date.now() > until) return standing
  }
}

/** Until the container ends, the connection breaks, or somebody has seen that it sleeps. */
async function* follow(site: Site, agent: Agent, container: Container, reader: LogReader, call: Call) {
  const log = await open(site, container, reader, { follow: true }, call)
  let isLeft = false
  const timer = setInterval(async () => {
    const { standing } = await standingOf(site, agent, call).catch(() => ({ standing: 'speaking' }))
    if (standing === 'speaking') return
    isLeft = true
    log.destroy()
  }, LOOK_MS)
  try {
    yield* pieces(log, container, reader)
  } catch (error) {
    if (!isLeft) throw error
  } finally {
    clearInterval(timer)
    log.destroy()
  }
}

function open({ engine }: Site, { id }: Container, reader: LogReader, { follow }: { follow: boolean }, call: Call) {
  const since = reader.rewind()
  const query = { stdout: true, stderr: true, timestamps: true, follow, since }
  return engine.stream({ method: 'GET', path: `/containers/${id}/logs`, query }, call)
}

async function* pieces(log: IncomingMessage, { inspected }: Container, reader: LogReader): AsyncGenerator<Piece> {
  const lines = new LineReader({ driver: inspected.HostConfig.LogConfig?.Type })
  function* freshOf(chunk: Buffer): Generator<Buffer> {
    for (const line of lines.read(chunk)) yield reader.read(line)
  }
  for await (const chunk of log as AsyncIterable<Buffer>) yield* inPieces(freshOf(chunk), reader)
  if (lines.isCut) throw new BackendError('sandbox_unreachable', 'The log of a container ends in the middle of a line')
}
