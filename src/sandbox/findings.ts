/** What may be wrong between the rows and a provider, from both sides, and what is done about it. */
export const FINDINGS = {
  instance_missing: {
    means: 'A sandbox is said to be there, and its provider has nothing of it.',
    does: 'The sandbox is ended as gone, with the reason.',
  },
  checkpoint_missing: {
    means: 'A sandbox sleeps, and what it should be resumed from is missing or cannot be read.',
    does: 'The sandbox is ended as gone, with the reason. A snapshot that nothing rests on is marked as missing.',
  },
  instance_unowned: {
    means: "A provider has an instance with this fleet's label, and no sandbox that lives has it.",
    does: 'The instance is ended.',
  },
  checkpoint_unowned: {
    means: "A provider has a checkpoint with this fleet's label, and nothing rests on it and nobody was promised it.",
    does: 'The checkpoint is deleted.',
  },
} as const satisfies Record<string, { means: string; does: string }>

export type FindingKind = keyof typeof FINDINGS

/** One look at a provider: what was asked, what it showed, where and when. */
export type Look = { at: string; place: string; asked: string; saw: string }

/** So many have to vanish before it is called sudden. What one alone does says nothing about its provider. */
export const SUDDEN_MIN = 2
/** A third of them. A provider that has lost that much has more likely lost its memory, or ours of it. */
const SUDDEN_SHARE = 1 / 3

/** Why what is shown must not be believed, in a sentence; undefined when it may be. Of sandboxes that a worker or a list has known. */
export function suddenLoss({ known, vanished }: { known: number; vanished: number }): string | undefined {
  if (!isSudden(vanished, known)) return undefined
  return `Of ${known} sandboxes that should be there, its provider has nothing, or nothing whole, of ${vanished}.`
}

/** The same from the other side: instances with this fleet's label, whose sandboxes this database has never heard of. */
export function suddenStrangers(seen: { listed: number; strangers: number; hasOwn: boolean }): string | undefined {
  const { listed, strangers, hasOwn } = seen
  // A database that has never had a sandbox of this fleet has lost none.
  if (!isSudden(strangers, listed) && (hasOwn || strangers === 0)) return undefined
  return `Of the ${listed} instances with this fleet's label, ${strangers} belong to sandboxes that this database has never heard of: another deployment may have the same fleet name, or the database may be an old copy.`
}

function isSudden(some: number, all: number): boolean {
  return some >= SUDDEN_MIN && some >= all * SUDDEN_SHARE
}
