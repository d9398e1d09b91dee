import pg from 'pg'

/** The schema `sandman` of a database as text, in a stable order: what a review of a migration looks at. */
export async function drawSchema(databaseUrl: string): Promise<string> {
  const client = new pg.Client(databaseUrl)
  await client.connect()
  try {
    const { rows } = await client.query<{ line: string }>(SCHEMA_AS_LINES)
    return `${rows.map(({ line }) => line).join('\n')}\n`
  } finally {
    await client.end()
  }
}

const SCHEMA_AS_LINES = `
  with relations as (
    select c.oid, c.relname as name from pg_class c
    where c.relnamespace = 'sandman'::regnamespace and c.relkind in ('r', 'p')
  ), lines as (
    select name, 0 as part, 0 as position, format(E'\\ntable %s', name) as line from relations
    union all
    select r.name, 1, a.attnum, format('  %s %s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
           case when a.attnotnull then ' not null' else '' end,
           case when a.attidentity <> '' then ' identity'
                when a.attgenerated <> '' then ' generated ' || pg_get_expr(d.adbin, d.adrelid)
                else ' default ' || pg_get_expr(d.adbin, d.adrelid) end)
    from relations r join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    union all
    select r.name, 2, row_number() over (order by c.conname), format('  constraint %s %s', c.conname, pg_get_constraintdef(c.oid))
    from relations r join pg_constraint c on c.conrelid = r.oid where c.contype <> 'n'
    union all
    select r.name, 3, row_number() over (order by i.indexrelid::regclass::text), '  ' || pg_get_indexdef(i.indexrelid)
    from relations r join pg_index i on i.indrelid = r.oid
    where not exists (select from pg_constraint c where c.conindid = i.indexrelid)
    union all
    select r.name, 4, row_number() over (order by t.tgname), '  ' || pg_get_triggerdef(t.oid)
    from relations r join pg_trigger t on t.tgrelid = r.oid where not t.tgisinternal
    union all
    select '~functions', 5, row_number() over (order by p.proname), E'\\n' || pg_get_functiondef(p.oid)
    from pg_proc p where p.pronamespace = 'sandman'::regnamespace
  )
  select coalesce(line, '') as line from lines order by name, part, position`
