/** What the id of something begins with: so an id says what it is of. */
export const ID_PREFIXES = { sandbox: 'sbx', operation: 'op', checkpoint: 'ckpt', execution: 'exe' } as const

export type Identified = keyof typeof ID_PREFIXES

/** Behind the prefix: when it was made, and then what makes it one of its kind, as `make_id` of the database writes them. */
export const ID_DIGITS = 26

export function idPattern(of: Identified): RegExp {
  return new RegExp(`^${ID_PREFIXES[of]}_[0-9a-f]{${ID_DIGITS}}$`)
}

const PATTERNS = {
  sandbox: idPattern('sandbox'),
  operation: idPattern('operation'),
  checkpoint: idPattern('checkpoint'),
  execution: idPattern('execution'),
} as const satisfies Record<Identified, RegExp>

/** Whether there can be such a thing at all. What cannot be an id need not be looked for, and some of it cannot even be sent. */
export function isIdOf(of: Identified, given: unknown): given is string {
  return typeof given === 'string' && PATTERNS[of].test(given)
}

/** What something is that has, or claims to have, this id: its prefix tells. */
export function kindOfId(id: string): Identified | undefined {
  const [prefix] = id.split('_', 1)
  return (Object.keys(ID_PREFIXES) as Identified[]).find((each) => ID_PREFIXES[each] === prefix)
}
