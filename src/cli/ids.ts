import { withDeadline } from '../deadline.ts'
import { ID_PREFIXES } from '../sandbox/ids.ts'
import { withFleet } from './asking.ts'
import type { Invocation } from './command.ts'
import { exit } from './exits.ts'

/** More than anybody reads who only pressed a key. */
const SHOWN_MAX = 50
/** Somebody is typing: late is as good as never. */
const PATIENCE_MS = 2_000

/** Says nothing when it does not know: whoever types must not be disturbed. */
export async function ids({ args: [kind, prefix = ''], session }: Invocation): Promise<number> {
  try {
    return await withFleet(session, async (fleet) => {
      const find = async () => {
        if (kind === 'execution') return (await fleet.executions({ limit: SHOWN_MAX })).items
        return (
          await fleet.list({ limit: SHOWN_MAX, ...(prefix.startsWith(`${ID_PREFIXES.sandbox}_`) && { id: prefix }) })
        ).items
      }
      const found = await withDeadline(PATIENCE_MS, 'the fleet', find)
      const matching = found.filter(({ id }) => id.startsWith(prefix))
      if (matching.length > 0) await session.io.out.write(`${matching.map(({ id }) => id).join('\n')}\n`)
      return exit('done')
    })
  } catch {
    return exit('failed')
  }
}
