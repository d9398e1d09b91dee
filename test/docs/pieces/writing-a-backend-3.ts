// Printed from docs/writing-a-backend.md.
import type { Pausing } from 'sandman'
declare const provider: {
  sleep(ref: string, incarnation: string | null, signal: AbortSignal): Promise<{ image: string }>
  wake(ref: string, key: string, signal: AbortSignal): Promise<void>
  startOwnAgent(ref: string, signal: AbortSignal): Promise<void>
  image(name: string, signal: AbortSignal): Promise<{ isWritten: boolean; bytes: number } | undefined>
  removeImage(name: string, signal: AbortSignal): Promise<void>
}
export const pausing: Pausing = {
  preserves: 'disk',
  consumesCheckpoint: false, // each pause leaves an image with a name of its own
  needsCheckpoint: true,
  async suspend({ ref, incarnation }, _asked, { signal }) {
    signal.throwIfAborted()
    const { image } = await provider.sleep(ref, incarnation, signal) // `overtaken` if another incarnation is there
    return { checkpointRef: image }
  },
  async resume({ ref }, { key }, { signal }) {
    signal.throwIfAborted()
    await provider.wake(ref, key, signal) // the same key wakes it once
    await provider.startOwnAgent(ref, signal) // also where a call before this one died in between
  },
  async verify(image, { signal }) {
    signal.throwIfAborted()
    const seen = await provider.image(image, signal)
    if (!seen) return { is: 'missing', why: `the provider has no image ${image}` }
    return seen.isWritten ? { is: 'ready', sizeBytes: seen.bytes } : { is: 'pending' }
  },
  async discard(image, { signal }) {
    signal.throwIfAborted()
    await provider.removeImage(image, signal) // one that is not there has been deleted
  },
}
