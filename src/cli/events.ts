import { setTimeout as sleep } from 'node:timers/promises'
import type { Fleet } from '../fleet/fleet.ts'
import type { SandboxEvent } from '../fleet/views.ts'
import { when } from '../fleet/words.ts'
import { withFleet } from './asking.ts'
import type { Invocation } from './command.ts'
import { exit } from './exits.ts'
import { harmless } from './harmless.ts'
import { printJson, printJsonLine } from './json.ts'
import type { Session } from './session.ts'
import { type Column, layTable } from './table.ts'
import { unlessAway, WATCH_MS } from './watch.ts'
import { cut } from './width.ts'

type Asked = { limit: number | undefined; cursor: string | undefined; json: boolean; watch: boolean }

export function events({ values, args, session }: Invocation<Asked>): Promise<number> {
  const [id] = args as [string]
  const { limit, cursor, json } = values
  const from: From = { ...(limit !== undefined && { limit }), ...(cursor !== undefined && { cursor }) }
  return withFleet(session, async (fleet, signal) => {
    if (values.watch) {
      await follow(fleet, id, { asked: values, session, signal, from })
      return exit('done')
    }
    const page = await fleet.events(id, from)
    if (json) await session.io.out.write(printJson(page))
    else {
      const { out } = session.io
      const rows = page.items.map((event) => cellsOf(event).map((text) => ({ text })))
      if (rows.length > 0)
        await session.say(layTable(COLUMNS, rows, { width: out.columns(), hasColours: out.hasColours }).join('\n'))
      if (page.nextCursor !== null)
        await session.note(`There are more: sandman events ${id} --cursor ${page.nextCursor}`)
    }
    return exit('done')
  })
}

type From = { limit?: number; cursor?: string }
type Following = { asked: Asked; session: Session; signal: AbortSignal; from: From }

/** History only grows: what is behind the last one is new. */
async function follow(fleet: Fleet, id: string, following: Following): Promise<void> {
  const { asked, session, signal } = following
  let { from } = following
  while (!signal.aborted) {
    const page = await unlessAway(fleet.events(id, from))
    if (typeof page === 'string') await session.complain(page)
    else {
      for (const event of page.items) await print(event, asked, session)
      const last = page.items.at(-1)
      if (last) from = { cursor: String(last.id) }
      if (page.nextCursor !== null) continue
    }
    await sleep(WATCH_MS, undefined, { signal }).catch(() => {})
  }
}

async function print(event: SandboxEvent, { json }: Asked, session: Session): Promise<void> {
  const { out } = session.io
  if (json) await out.write(printJsonLine(event))
  else
    await session.say(
      cut(
        cellsOf(event)
          .filter((text) => text !== '')
          .join('  '),
        out.columns(),
      ),
    )
}

const COLUMNS: Column[] = [
  { title: 'AT' },
  { title: 'EVENT' },
  { title: 'STATE' },
  { title: 'BY' },
  { title: 'DETAIL', canShrink: true },
]

function cellsOf({ at, type, from, to, operationId, executionId, detail }: SandboxEvent): string[] {
  const move = to === null ? '' : from === null ? to : `${from} → ${to}`
  const told = Object.keys(detail).length === 0 ? '' : JSON.stringify(detail)
  return [when(at), type, move, operationId ?? executionId ?? '', harmless(told)]
}
