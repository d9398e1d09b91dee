import { INCIDENTS } from '../demo/incidents/all.ts'
import { play } from '../demo/play.ts'
import { Show } from '../demo/show.ts'
import { type Stage, setStage } from '../demo/stage.ts'
import { UsageError } from './arguments.ts'
import type { Invocation } from './command.ts'
import { showInColumns } from './demo/columns.ts'
import { showAsLines } from './demo/lines.ts'
import { summary } from './demo/summary.ts'
import { exit } from './exits.ts'
import { printJson } from './json.ts'
import type { Session } from './session.ts'

type Values = { only: string | undefined; keep: boolean; json: boolean }

/** Narrower than this, two columns are hard to read. */
const COLUMNS_MIN = 90
/** How long those who play may take to notice that somebody has left. */
const LEAVE_MS = 5_000

/** Plays the incidents, and says what was shown. Done only when each usual column has failed and each of Sandman's has held. */
export async function demo({ values, session }: Invocation<Values>): Promise<number> {
  const { json, keep } = values
  const incidents = chosen(values.only)
  const show = new Show(incidents)
  const signal = session.io.interrupts()
  const say = (text: string) => (json ? session.note(text) : session.say(text))
  let stage: Stage | undefined
  let shown: { end(): Promise<void> } | undefined
  try {
    stage = await setStage({ incidents, show, signal, say: (text) => void say(`${text} …`) })
    await say(`\nLook on in the console: ${stage.url}\n`)
    shown = json ? undefined : watch(show, session)
    await untilLeft(signal, play({ incidents, show, stage, signal, atOnce: json }))
    signal.throwIfAborted()
    await shown?.end()
    if (json) await session.io.out.write(printJson(told(show)))
    else await session.say(summary(show, session.io.out))
    if (keep) await stay(session, stage.url, signal)
    return exit(show.wasAsExpected ? 'done' : 'failed')
  } catch (error) {
    await shown?.end()
    if (!signal.aborted) throw error
    await stage?.close()
    await session.note('It was left before its end. Nothing of it is left.')
    return exit('interrupted')
  } finally {
    await stage?.close()
  }
}

function chosen(only: string | undefined) {
  if (only === undefined) return INCIDENTS
  const letters = only
    .toUpperCase()
    .split(',')
    .map((letter) => letter.trim())
  const unknown = letters.find((letter) => !INCIDENTS.some((incident) => incident.letter === letter))
  if (unknown !== undefined) {
    const there = INCIDENTS.map(({ letter }) => letter).join(', ')
    throw new UsageError(`--only: there is no incident "${unknown}"; there are ${there}`)
  }
  return INCIDENTS.filter(({ letter }) => letters.includes(letter))
}

function watch(show: Show, session: Session): { end(): Promise<void> } {
  const { out } = session.io
  return out.isTerminal && out.columns() >= COLUMNS_MIN ? showInColumns(show, out) : showAsLines(show, out)
}

/** Who plays notices by itself that somebody has left, and what it was in the middle of is not torn away from it. */
async function untilLeft(signal: AbortSignal, playing: Promise<void>): Promise<void> {
  const late = new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => setTimeout(resolve, LEAVE_MS).unref(), { once: true })
  })
  playing.catch(() => {}) // who is late is not waited for
  await Promise.race([playing, late])
}

async function stay(session: Session, url: string, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  const left = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
  const { question } = session.io
  const how = question ? 'Enter or Ctrl-C ends it.' : 'Ctrl-C ends it.'
  const text = `The console stays at ${url}. ${how}`
  if (question) await Promise.race([left, question(`${text} `, signal).catch(() => {})])
  else {
    await session.note(text)
    await left
  }
}

function told(show: Show) {
  const { acts, wasAsExpected } = show
  return {
    asExpected: wasAsExpected,
    incidents: acts.map(({ letter, title, happened, columns }) => ({ letter, title, happened, ...columns })),
  }
}
