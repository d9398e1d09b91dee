/** Does something now, and again so long after it has come to its end, until it is stopped. It must not throw. */
export function keepDoing(
  work: (isStopped: () => boolean) => Promise<void>,
  everyMs: number,
): { stop(): Promise<void> } {
  let timer: NodeJS.Timeout | undefined
  let isStopped = false
  const go = async (): Promise<void> => {
    await work(() => isStopped)
    if (!isStopped)
      timer = setTimeout(() => {
        going = go()
      }, everyMs)
  }
  let going = go()
  return {
    async stop() {
      isStopped = true
      clearTimeout(timer)
      await going
    },
  }
}
