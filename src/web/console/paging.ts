import { ID_PREFIXES, isIdOf } from '../../sandbox/ids.ts'

/**
 * Where in a list somebody is: the cursor of the page, and those of the pages that came before it, so that there is a way back. The
 * list itself only knows what comes next.
 */
export type Place = { cursor?: string; trail?: string }

/** Pages that one can go back one by one. An address must not grow for ever; from further on, the way back is to the newest. */
const TRAIL_MAX = 20
/** The first page has no cursor, but its place in the trail. */
const FIRST = '-'
/** What all of them begin with is left out of the trail. */
const PREFIX = `${ID_PREFIXES.sandbox}_`

export function placeIn(query: (name: string) => string | undefined): Place {
  const cursor = query('cursor')
  if (!isIdOf('sandbox', cursor)) return {}
  const trail = query('trail')?.split('.').slice(-TRAIL_MAX) ?? []
  return { cursor, trail: trail.filter((each) => each === FIRST || isIdOf('sandbox', PREFIX + each)).join('.') }
}

export function placeAfter({ cursor, trail = '' }: Place, next: string): Place {
  const here = cursor?.slice(PREFIX.length) ?? FIRST
  const before = trail === '' ? [] : trail.split('.')
  return { cursor: next, trail: [...before, here].slice(-TRAIL_MAX).join('.') }
}

export function placeBefore({ trail = '' }: Place): Place | undefined {
  const before = trail === '' ? [] : trail.split('.')
  const last = before.at(-1)
  if (last === undefined || last === FIRST) return undefined
  return { cursor: PREFIX + last, trail: before.slice(0, -1).join('.') }
}
