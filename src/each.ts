const AT_ONCE = 8

/** A few at a time, in no particular order; the first failure ends it. */
export async function forEach<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values()
  let failed = false
  const one = async () => {
    for (const item of left) {
      if (failed) return
      await work(item).catch((error) => {
        failed = true
        throw error
      })
    }
  }
  // All of them are waited for: nobody writes any more when this is over.
  const results = await Promise.allSettled(Array.from({ length: AT_ONCE }, one))
  for (const result of results) if (result.status === 'rejected') throw result.reason
}

/** Several at once that have nothing to do with each other. The first failure is thrown when all of them are over. */
export async function sideBySide<Works extends readonly Promise<unknown>[] | []>(works: Works) {
  await Promise.allSettled(works)
  return Promise.all(works)
}
