import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Routes } from '../routes.ts'

const TYPES = {
  'console.css': 'text/css; charset=utf-8',
  'console.js': 'text/javascript; charset=utf-8',
  'theme.js': 'text/javascript; charset=utf-8',
  'sandman.svg': 'image/svg+xml',
} as const
type Name = keyof typeof TYPES

const ASSETS = new Map(
  (Object.keys(TYPES) as Name[]).map((name) => {
    const body = readFileSync(new URL(`./assets/${name}`, import.meta.url))
    return [name, { body, hash: createHash('sha256').update(body).digest('base64url').slice(0, 12) }] as const
  }),
)

/** Named by what is in it, so that it may be kept for ever. */
export function assetPath(name: Name): string {
  return `/assets/${name}?v=${ASSETS.get(name)?.hash}`
}

/** Styles and scripts. They hold nothing of a fleet, and the page that asks for a token needs them: anybody may have them. */
export function serveAssets(routes: Routes): void {
  for (const [name, { body, hash }] of ASSETS) {
    routes.add('GET', `/assets/${name}`, 'anybody', (c) => {
      const isNamed = c.req.query('v') === hash
      return c.body(body, 200, {
        'content-type': TYPES[name],
        'x-content-type-options': 'nosniff',
        // Without its hash it may be another one tomorrow.
        'cache-control': isNamed ? 'public, max-age=31536000, immutable' : 'no-cache',
      })
    })
  }
}
