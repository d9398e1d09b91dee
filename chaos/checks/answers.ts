import { type Evidence, type Flaw, flaw } from './flaw.ts'

/** What clients were told is in the ledger, and every key has named one thing, to them and there. */
export function checkAnswers({ diary, ledger }: Evidence): Flaw[] {
  const found: Flaw[] = []
  const rows = new Map<string, { sandbox_id: string; kind: string }>([
    ...ledger.operations.map((row) => [row.id, row] as const),
    ...ledger.executions.map((row) => [row.id, { sandbox_id: row.sandbox_id, kind: 'execute' }] as const),
  ])
  const keys = new Map(ledger.keys.map((row) => [row.key, row.operation_id ?? row.execution_id]))
  const named = new Map<string, Set<string>>()
  for (const { key, id, kind, sandboxId, status } of diary.told) {
    const before = named.get(key)
    named.set(key, new Set([...(before ?? []), id]))
    if (before?.has(id)) continue
    const row = rows.get(id)
    if (!row) found.push(flaw('lost', sandboxId, `${id} (${kind}, answered ${status}) is not in the ledger`))
    else if (row.sandbox_id !== sandboxId || row.kind !== kind)
      found.push(flaw('lost', sandboxId, `${id} was ${kind} of ${sandboxId}, and is ${row.kind} of ${row.sandbox_id}`))
    if (keys.get(key) !== id)
      found.push(flaw('doubled', sandboxId, `${key} was answered with ${id}, and means ${keys.get(key) ?? 'nothing'}`))
  }
  for (const [key, ids] of named)
    if (ids.size > 1) found.push(flaw('doubled', undefined, `${key} was answered with ${[...ids].join(' and ')}`))
  for (const { key, kind, sandboxId } of diary.unanswered)
    found.push(flaw('lost', sandboxId, `${key} (${kind}) was never answered, also when all was quiet`))
  return found
}
