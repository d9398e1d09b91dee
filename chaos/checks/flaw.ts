import type { Diary } from '../diary.ts'
import type { Undone } from '../epilogue.ts'
import type { LedgerRows } from '../ledger.ts'
import type { Truth } from '../truth.ts'

/** What must not be, each counted on its own. */
export const FLAWS = {
  lost: 'what a client was told of is not there, or has not had its effect',
  doubled: 'one key named two operations, a sandbox has two instances, or an agent was started twice',
  stuck: 'an operation, an execution or a sandbox that does not come to rest',
  leaked: 'something at a provider that nobody has, or something that somebody has and no provider',
  wrong: 'what is written down is not what happened, or a process fell by itself',
} as const

export type FlawKind = keyof typeof FLAWS
export type Flaw = { kind: FlawKind; sandboxId: string | undefined; says: string }

/** What everybody knows when all is over: clients, the ledger, the providers. */
export type Evidence = {
  diary: Pick<Diary, 'told' | 'unanswered'>
  ledger: LedgerRows
  truth: Truth
  /** What was asked for when all was quiet, and was not done. */
  undone: readonly Undone[]
  /** Processes that ended by themselves, in sentences. */
  fallen: readonly string[]
}

export function flaw(kind: FlawKind, sandboxId: string | undefined, says: string): Flaw {
  return { kind, sandboxId, says }
}
