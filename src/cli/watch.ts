import { setTimeout as sleep } from 'node:timers/promises'
import { isSandmanError } from '../errors.ts'
import { Frame } from './frame.ts'
import { harmless } from './harmless.ts'
import { printJsonLine } from './json.ts'
import type { Session } from './session.ts'
import { cut } from './width.ts'

/** Often enough to see things change, and seldom enough that a hundred people may look. */
export const WATCH_MS = 2_000

/** What a look has seen. */
export type View = {
  /** For a terminal. */
  lines: string[]
  /** For something that reads: each is printed when it was not among those of the look before. */
  news: string[]
  /** For a program. */
  document: unknown
  /** There will be no more news. */
  isOver?: boolean
}

type Watching = { look: () => Promise<View>; json: boolean; signal: AbortSignal; everyMs?: number }

/** Looks again and again, one look a tick, until it is over or somebody has seen enough. */
export async function watch(session: Session, { look, json, signal, everyMs = WATCH_MS }: Watching): Promise<void> {
  const show = json ? asJson(session) : session.io.out.isTerminal ? onTerminal(session) : asLines(session)
  try {
    while (!signal.aborted) {
      const view = await unlessAway(look())
      if (signal.aborted) return
      if (typeof view === 'string') await show.trouble(view)
      else {
        await show.view(view)
        if (view.isOver) return
      }
      await sleep(everyMs, undefined, { signal }).catch(() => {})
    }
  } finally {
    await show.end()
  }
}

/** What was seen; or why nothing was, when that is no reason to look away: a database that is away for a while. */
export function unlessAway<Seen>(looking: Promise<Seen>): Promise<Seen | string> {
  return looking.catch((error: unknown) => {
    if (!isSandmanError(error, 'database_unreachable')) throw error
    return error.message
  })
}

type Show = { view(view: View): Promise<void>; trouble(message: string): Promise<void>; end(): Promise<void> }

function onTerminal(session: Session): Show {
  const { out } = session.io
  const frame = new Frame(out)
  let lines: string[] = []
  return {
    view(view) {
      lines = view.lines
      return frame.draw(lines.map((line) => session.redact(line)))
    },
    trouble: (message) => frame.draw([...lines, cut(session.redact(harmless(message)), out.columns())]),
    end: () => frame.end(),
  }
}

function asLines(session: Session): Show {
  let before = new Set<string>()
  return {
    async view({ news }) {
      for (const line of news) if (!before.has(line)) await session.say(line)
      before = new Set(news)
    },
    trouble: (message) => session.complain(message),
    end: async () => {},
  }
}

function asJson(session: Session): Show {
  let before = ''
  return {
    async view({ document }) {
      const line = printJsonLine(document)
      if (line !== before) await session.io.out.write(line)
      before = line
    },
    trouble: (message) => session.complain(message),
    end: async () => {},
  }
}
