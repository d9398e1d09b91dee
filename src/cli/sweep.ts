import { isWell } from '../fleet/sweep.ts'
import { sweepView } from '../wire/views.ts'
import { withFleet } from './asking.ts'
import type { Invocation } from './command.ts'
import { exit } from './exits.ts'
import { sentences } from './harmless.ts'
import { printJson } from './json.ts'
import { printReport } from './sweep-report.ts'

type Asked = {
  'dry-run': boolean
  believe: boolean
  backend: string | undefined
  wait: string | undefined
  json: boolean
}

export function sweep({ values, session }: Invocation<Asked>): Promise<number> {
  const { 'dry-run': dryRun, believe, backend, wait, json } = values
  return withFleet(session, async (fleet, signal) => {
    const some = { ...(backend !== undefined && { backend }), ...(wait !== undefined && { wait }) }
    const report = await fleet.sweep({ dryRun, believe, ...some, signal }).catch((error: unknown) => {
      if (!signal.aborted) throw error
    })
    if (!report) {
      await session.complain(
        'interrupted: what the workers were asked for goes on. "sandman sweep --dry-run" shows it.',
      )
      return exit('interrupted')
    }
    if (json) await session.io.out.write(printJson(sweepView(report)))
    else await session.say(sentences(printReport(report)))
    return exit(isWell(report) ? 'done' : 'failed')
  })
}
