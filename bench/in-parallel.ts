/** Each of them, so many at a time. The first that fails ends it. */
export async function inParallel<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const left = items[Symbol.iterator]()
  const go = async () => {
    for (const item of left) await work(item)
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, go))
}
