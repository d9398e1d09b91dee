import type { Check } from './all.ts'

/** Nothing is stuck: no operation and no execution is open, and no sandbox on its way. */
export const checkRest: Check = async ({ db, found }) => {
  const operations = await db
    .selectFrom('operations')
    .selectAll()
    .where('settled_at', 'is', null)
    .orderBy('id')
    .execute()
  for (const { id, kind, status, attempt, sandbox_id, last_error } of operations) {
    const why = last_error ? `; the last attempt failed: ${last_error.message}` : ''
    found(
      'everything that was accepted is settled',
      sandbox_id,
      `${kind} ${id} is ${status} after ${attempt} attempts${why}`,
    )
  }
  const executions = await db.selectFrom('executions').selectAll().where('ended_at', 'is', null).orderBy('id').execute()
  for (const { id, status, sandbox_id } of executions) found('every execution ends', sandbox_id, `${id} is ${status}`)
}
