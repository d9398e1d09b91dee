import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table sandman.canaries (
      id          uuid primary key default gen_random_uuid(),
      fleet       text not null,
      sent_at     timestamptz not null default now(),
      answered_at timestamptz,
      answered_by text,
      constraint canaries_answer_is_signed check ((answered_at is null) = (answered_by is null))
    )
  `.execute(db)
  await sql`create index canaries_sent_at on sandman.canaries (sent_at)`.execute(db)
}
