import { PAGE_MAX } from '../fleet/bounds.ts'
import type { Fleet } from '../fleet/fleet.ts'
import type { Page, Sandbox } from '../fleet/views.ts'
import { age } from '../fleet/words.ts'
import { quoteWord } from '../quote-word.ts'
import type { State } from '../sandbox/states.ts'
import { sandboxView } from '../wire/views.ts'
import { UsageError } from './arguments.ts'
import { withFleet } from './asking.ts'
import type { Invocation } from './command.ts'
import { exit } from './exits.ts'
import { harmless } from './harmless.ts'
import { printItem, printJson } from './json.ts'
import { printMetadata, readPairs } from './metadata.ts'
import { STATE_COLOURS } from './paint.ts'
import type { Session } from './session.ts'
import { type Cell, type Column, layTable } from './table.ts'
import { type View, watch } from './watch.ts'

type Asked = {
  state: State | undefined
  backend: string | undefined
  metadata: string[]
  id: string | undefined
  limit: number | undefined
  cursor: string | undefined
  all: boolean
  quiet: boolean
  json: boolean
  watch: boolean
}

export async function ls({ values, session }: Invocation<Asked>): Promise<number> {
  const { all, quiet, json } = values
  if (all && values.watch) throw new UsageError('--watch shows one page: leave out --all')
  if (quiet && json) throw new UsageError('--quiet and --json are two answers: leave out one')
  if (all && values.limit !== undefined) throw new UsageError('--all has no --limit')
  return withFleet(session, async (fleet, signal) => {
    if (values.watch) {
      const look = async () => viewOf(await fleet.list(requestOf(values)), values, session)
      await watch(session, { look, json, signal })
    } else if (json) await printDocument(fleet, values, session, signal)
    else await printPages(fleet, values, session, signal)
    return exit('done')
  })
}

function requestOf({ state, backend, metadata, id, limit, cursor, all }: Asked): Parameters<Fleet['list']>[0] {
  return {
    ...(state !== undefined && { state }),
    ...(backend !== undefined && { backend }),
    ...(metadata.length > 0 && { metadata: readPairs(metadata) }),
    ...(id !== undefined && { id }),
    ...(cursor !== undefined && { cursor }),
    ...(all ? { limit: PAGE_MAX } : limit !== undefined && { limit }),
  }
}

const wirePage = ({ items, nextCursor }: Page<Sandbox>) => ({ items: items.map(sandboxView), nextCursor })

/** One page, or one after the other, so that a large fleet needs no large memory. */
async function* pagesOf(fleet: Fleet, asked: Asked, signal: AbortSignal): AsyncGenerator<Page<Sandbox>> {
  let { cursor } = asked
  for (;;) {
    signal.throwIfAborted()
    const page = await fleet.list(requestOf({ ...asked, cursor }))
    yield page
    if (!asked.all || page.nextCursor === null) return
    cursor = page.nextCursor
  }
}

async function printPages(fleet: Fleet, asked: Asked, session: Session, signal: AbortSignal): Promise<void> {
  let printed = 0
  for await (const { items, nextCursor } of pagesOf(fleet, asked, signal)) {
    const lines = asked.quiet ? items.map(({ id }) => id) : tableOf(items, session, printed === 0)
    if (items.length > 0) await session.say(lines.join('\n'))
    printed += items.length
    // A page may be empty although there are more: a rare filter is looked for in parts.
    if (nextCursor !== null && !asked.all) return session.note(nextPage(asked, nextCursor))
  }
  if (printed === 0)
    await session.note(isFiltered(asked) ? 'No sandbox is like that.' : 'There is no sandbox in this fleet.')
}

/** As one document, which is written while it is read. */
async function printDocument(fleet: Fleet, asked: Asked, session: Session, signal: AbortSignal): Promise<void> {
  const { out } = session.io
  if (!asked.all) return void (await out.write(printJson(wirePage(await fleet.list(requestOf(asked))))))
  let isFirst = true
  await out.write('{\n  "items": [')
  for await (const { items } of pagesOf(fleet, asked, signal)) {
    for (const item of items) {
      await out.write(`${isFirst ? '' : ','}${printItem(sandboxView(item))}`)
      isFirst = false
    }
  }
  await out.write('\n  ],\n  "next_cursor": null\n}\n')
}

const COLUMNS: Column[] = [
  { title: 'ID' },
  { title: 'STATE' },
  { title: 'BACKEND', canShrink: true },
  { title: 'SINCE' },
  { title: 'ACTIVE' },
  { title: 'WHY', canShrink: true },
  { title: 'METADATA', canShrink: true },
]

function tableOf(items: readonly Sandbox[], { io: { out } }: Session, hasTitles = true): string[] {
  const now = Date.now()
  const rows = items.map((sandbox) => rowOf(sandbox, (at) => age(now - at.getTime())))
  return layTable(COLUMNS, rows, { width: out.columns(), hasColours: out.hasColours, hasTitles })
}

/** The reason when it is gone, and the operation when one works on it. */
function rowOf(sandbox: Sandbox, time: (at: Date) => string): Cell[] {
  const { id, state, backend, stateChangedAt, lastActiveAt, goneReason, operationId, metadata } = sandbox
  return [
    { text: id },
    { text: state, colour: STATE_COLOURS[state] },
    { text: harmless(backend) },
    { text: time(stateChangedAt) },
    { text: time(lastActiveAt) },
    { text: goneReason ?? operationId ?? '' },
    { text: printMetadata(metadata) },
  ]
}

function viewOf(page: Page<Sandbox>, asked: Asked, session: Session): View {
  const { items, nextCursor } = page
  // With the times themselves: an age is another one at every look, and would be news.
  const news = items.map((sandbox) => newsOf(sandbox, asked.quiet))
  const more = nextCursor === null ? [] : [`There are more: --limit shows up to ${PAGE_MAX}, and filters show fewer.`]
  const lines = asked.quiet ? items.map(({ id }) => id) : tableOf(items, session)
  return { lines: [...lines, ...more], news, document: wirePage(page) }
}

function newsOf(sandbox: Sandbox, quiet: boolean): string {
  if (quiet) return sandbox.id
  const cells = rowOf(sandbox, (at) => at.toISOString())
  return cells.flatMap(({ text }) => (text === '' ? [] : [text])).join('  ')
}

const isFiltered = ({ state, backend, metadata, id, cursor }: Asked) =>
  metadata.length > 0 || [state, backend, id, cursor].some((filter) => filter !== undefined)

function nextPage({ state, backend, metadata, id, limit }: Asked, cursor: string): string {
  const pairs = metadata.flatMap((pair) => ['--metadata', pair])
  const given = { state, backend, id, limit, cursor }
  const options = Object.entries(given).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`, String(value)],
  )
  return `There are more: sandman ls ${[...pairs, ...options].map(quoteWord).join(' ')}`
}
