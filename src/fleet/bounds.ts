/**
 * Bounds of requests that people are told of as well. Apart from the requests themselves: a help text needs none of what it takes
 * to read those.
 */

/** How many a page has. */
export const PAGE = 100
export const PAGE_MAX = 500

/** No name of a backend is longer. */
export const BACKEND_CHARS_MAX = 64

/** What sandboxes are found by, as `db/migrations/0007_glance.ts` writes it down: names and values so long, and so many of a sandbox. */
export const TAG_CHARS_MAX = 256
export const TAGS_MAX = 64
