import type { Servers } from '../proof/servers.ts'
import type { Sizes } from './sizes.ts'

/** What every section is given. */
export type Bench = {
  servers: Servers
  sizes: Sizes
  /** Where processes write what they spent their time with, if anybody wants to know. */
  profileFolder: string | undefined
}

/** Where queues may live: everything is measured on each. */
export const STORES = ['redis', 'postgres'] as const
export type Store = (typeof STORES)[number]

/** One line of the table: a figure beside what it is measured against. */
export type Row = {
  figure: string
  value: number
  unit: string
  /** What it could be at best, or what it is compared with. */
  limit?: number
  /** What it is compared with, what it is made of, or what else has to be known of it. */
  note?: string
  ratio?: number
  /** What the ratio, or the value when there is none, has to be. */
  goal?: { atLeast: number } | { atMost: number }
}

/** What a section has measured: for programs, and for people. */
export type Result = { json: object; rows: Row[] }

export type Section = (bench: Bench) => Promise<Result>
