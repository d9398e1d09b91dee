import type { Why } from '../fleet/why.ts'
import { when } from '../fleet/words.ts'
import { withFleet } from './asking.ts'
import type { Invocation } from './command.ts'
import { exit } from './exits.ts'
import { sentences } from './harmless.ts'
import { printJson } from './json.ts'

export function why({ values, args: [id], session }: Invocation<{ json: boolean }>): Promise<number> {
  return withFleet(session, async (fleet) => {
    const told = await fleet.why(id as string)
    if (values.json) await session.io.out.write(printJson(told))
    else await session.say(sentences(printWhy(told)))
    return exit('done')
  })
}

/** The answer, and a line for every event. */
export function printWhy({ answer, story, isComplete }: Why): string {
  const gap = isComplete ? [] : ['Not all of its history is told here: the rest is not kept, or is too much.']
  return [answer, '', ...gap, ...story.map(({ at, text }) => `${when(at)}  ${text}`)].join('\n')
}
