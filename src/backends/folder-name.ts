const NAME = /^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}$/

/** One name in a folder, and none that is hidden: those are drafts, and what is being removed. */
export function isFolderName(text: string): boolean {
  return NAME.test(text)
}
