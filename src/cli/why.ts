import { printWhy } from '../fleet/why.ts'
import { withFleet } from './asking.ts'
import type { Invocation } from './command.ts'
import { exit } from './exits.ts'
import { harmlessLines } from './harmless.ts'
import { printJson } from './json.ts'

export function why({ values, args: [id], session }: Invocation<{ json: boolean }>): Promise<number> {
  return withFleet(session, async (fleet) => {
    const told = await fleet.why(id as string)
    if (values.json) await session.io.out.write(printJson(told))
    else await session.say(harmlessLines(printWhy(told)))
    return exit('done')
  })
}
