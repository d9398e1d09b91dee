import { BackendError } from './backend.ts'

/** Of one sandbox, or of one name, there are a few. More pages than this is a list that does not end. */
const PAGES_MAX = 100

/** All that the pages of a provider's list have, one after the other. */
export async function* readPages<T>(
  whose: string,
  page: (cursor: string | undefined) => Promise<{ data: T[]; next: string | undefined }>,
): AsyncGenerator<T> {
  let cursor: string | undefined
  for (let pages = 0; pages < PAGES_MAX; pages++) {
    const { data, next } = await page(cursor)
    yield* data
    if (next === undefined) return
    cursor = next
  }
  throw new BackendError('sandbox_unreachable', `A list of ${whose} does not end: it has more than ${PAGES_MAX} pages`)
}

/** The same order for whoever compares them. */
export function byAge(a: { ref: string; born: string }, b: { ref: string; born: string }): number {
  return `${a.born} ${a.ref}` < `${b.born} ${b.ref}` ? -1 : 1
}
