/** The front page of the console, which has nothing below its own path. */
export { GET, HEAD } from './[...path]/route.ts'

export const runtime = 'nodejs'
export const dynamic = 'force-dynamic'
