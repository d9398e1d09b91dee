/** What a page wants to be told of. */
export type Watched = {
  sandboxIds?: readonly string[]
  /** Also when the fleet has a new sandbox. */
  newest?: boolean
  /** How the fleet is as a whole, every few seconds. */
  overview?: boolean
  /** What an execution prints, from a byte on. */
  execution?: { id: string; from: number }
}

/** Where it is told. */
export function liveOf({ sandboxIds = [], newest, overview, execution }: Watched): string {
  const query = new URLSearchParams()
  if (sandboxIds.length > 0) query.set('sandboxes', sandboxIds.join('.'))
  if (newest) query.set('newest', 'yes')
  if (overview) query.set('overview', 'yes')
  if (execution) {
    query.set('execution', execution.id)
    query.set('from', String(execution.from))
  }
  return `/live?${query}`
}

export function watchedIn(query: (name: string) => string | undefined): Watched {
  const from = Number(query('from') ?? 0)
  const id = query('execution')
  return {
    sandboxIds: query('sandboxes')?.split('.') ?? [],
    newest: query('newest') !== undefined,
    overview: query('overview') !== undefined,
    ...(id !== undefined && { execution: { id, from: Number.isSafeInteger(from) && from >= 0 ? from : 0 } }),
  }
}
