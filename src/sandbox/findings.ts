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

/** What a whole list has shown, beside what was expected of it. */
export type Census = {
  listed: number
  /** Instances that an earlier list had shown, whose sandboxes are still said to be there, and whose time was not up. */
  known: number
  /** Those of them that this list does not show. */
  vanished: number
  /** Instances whose sandbox this database has never heard of. */
  strangers: number
}

/** Why a list must not be believed, in a sentence; undefined when it may be. */
export function whyNotBelieved({ listed, known, vanished, strangers }: Census): string | undefined {
  if (vanished >= SUDDEN_MIN && vanished >= known * SUDDEN_SHARE)
    return `Its provider showed ${known} instances of sandboxes that should still be there, and now does not show ${vanished} of them.`
  if (strangers >= SUDDEN_MIN && strangers >= listed * SUDDEN_SHARE)
    return `Of the ${listed} instances with this fleet's label, ${strangers} belong to sandboxes that this database has never heard of: another deployment may have the same fleet name, or the database may be an old copy.`
  return undefined
}
