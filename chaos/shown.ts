import { KINDS } from '../src/sandbox/judge.ts'
import type { FaultKind } from './plan.ts'

/** How much happened, which says how much zeros mean. */
export type Happened = {
  /** Operations that were done, and executions that have run to their end, by kind. */
  done: Readonly<Record<string, number>>
  /** Checkpoints that an answer has named as made. */
  promised: number
  faults: Readonly<Partial<Record<FaultKind, { planned: number; inflicted: number }>>>
  calls: number
  failedCalls: number
}

/** Fewer calls of a provider than this meet hardly any of the ways in which one can go wrong. */
const CALLS_LEAST = 100

/** What a good result does not show, because it did not happen. */
export function warningsOf({ done, promised, faults, calls, failedCalls }: Happened): string[] {
  const undone = [...KINDS, 'execute'].filter((kind) => !done[kind])
  const never = Object.entries(faults).flatMap(([kind, { inflicted }]) => (inflicted === 0 ? [kind] : []))
  return [
    ...undone.map((kind) => `no ${kind} was done while there were faults`),
    ...(promised === 0 ? ['nobody was answered that a pause or snapshot was done, and with which checkpoint'] : []),
    ...never.map((kind) => `${kind} was wanted, and never inflicted`),
    ...(calls < CALLS_LEAST ? [`the provider had ${calls} calls, which is less than ${CALLS_LEAST}`] : []),
    ...(failedCalls === 0 ? ['no call of the provider failed'] : []),
  ]
}
