import { BackendError, type Call } from '../backend.ts'
import { Refusal } from './errors.ts'
import type { Site } from './site.ts'

/** What registries say of what they do not have, or do not give. */
const NOT_TO_BE_HAD = /not found|manifest unknown|denied|unauthorized|invalid reference|does not exist|no such image/i
const TOO_MANY = /toomanyrequests|too many requests/i

/** Brings an image to the engine. */
export async function pull({ engine }: Site, image: string, call: Call): Promise<void> {
  try {
    const query = { fromImage: withTag(image) }
    const progress = await engine.stream({ method: 'POST', path: '/images/create', query }, call)
    let last = ''
    for await (const piece of progress as AsyncIterable<Buffer>) last = (last + piece.toString()).slice(-TAIL_CHARS)
    // It says that all is well before it knows, and what went wrong in its last line.
    const error = /"error":"((?:[^"\\]|\\.)*)"/.exec(last)?.[1]
    if (error !== undefined) throw unfit(image, error)
  } catch (error) {
    if (error instanceof Refusal && error.isOwn) throw unfit(image, error.text, error)
    throw error
  }
}

const TAIL_CHARS = 4_096

function unfit(image: string, why: string, cause?: unknown): BackendError {
  const type = TOO_MANY.test(why) ? 'rate_limited' : NOT_TO_BE_HAD.test(why) ? 'spec_invalid' : 'sandbox_unreachable'
  const message = `The Docker engine has no image ${JSON.stringify(image)}, and could not pull it: ${why}. Check \`template\`, or pull it there.`
  return new BackendError(type, message, { cause })
}

/** Without a tag, some engines would bring all that there are. */
function withTag(image: string): string {
  const last = image.slice(image.lastIndexOf('/') + 1)
  return last.includes(':') || last.includes('@') ? image : `${image}:latest`
}
