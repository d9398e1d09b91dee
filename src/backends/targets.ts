import { BackendError } from './backend.ts'

/** For calls that find their instance in another state than they were meant for: every backend says it in the same words. */

export function overtaken(ref: string, why: string): BackendError {
  return new BackendError('overtaken', `This was not meant for ${ref} as it is now: ${why}`)
}

export function onlyRemains(ref: string, why: string): BackendError {
  return new BackendError('sandbox_expired', `There is nothing left of ${ref} that could do that: ${why}`)
}
