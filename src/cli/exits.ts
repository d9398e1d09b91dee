/** What the process says to a script when it ends. */
export const EXITS = {
  done: { code: 0, means: 'done, or already so' },
  failed: { code: 1, means: 'it failed, or something is wrong that the message names' },
  usage: { code: 2, means: 'wrong usage: nothing was asked of anybody' },
  refused: { code: 3, means: 'refused: it cannot be done as things are, or the question was answered with no' },
  notFound: { code: 4, means: 'there is nothing with that id' },
  unsettled: { code: 5, means: 'not settled within `--wait`: it goes on' },
  broken: { code: 125, means: '`exec` only: the command could not be run, or nobody knows how it ended' },
  interrupted: { code: 130, means: 'interrupted by Ctrl-C: what was accepted goes on' },
} as const satisfies Record<string, { code: number; means: string }>

export type Exit = keyof typeof EXITS

export function exit(name: Exit): number {
  return EXITS[name].code
}

/** Of several: what they have in common, or that something is wrong. */
export function worstOf(codes: readonly number[]): number {
  const bad = [...new Set(codes.filter((code) => code !== 0))]
  return bad.length > 1 ? exit('failed') : (bad[0] ?? exit('done'))
}
