import { Events } from '../events.ts'
import { examine } from '../fleet/doctor.ts'
import type { Invocation } from './command.ts'
import { exit } from './exits.ts'
import { harmless } from './harmless.ts'
import { printJson } from './json.ts'
import type { Colour } from './paint.ts'
import { layTable } from './table.ts'

const COLOURS: Record<string, Colour> = { ok: 'green', warning: 'yellow', problem: 'red' }

export async function doctor({ values, session }: Invocation<{ json: boolean }>): Promise<number> {
  const diagnoses = await examine(await session.config(), new Events())
  const { out } = session.io
  if (values.json) await out.write(printJson({ findings: diagnoses }))
  else {
    const rows = diagnoses.map(({ check, verdict, message }) => [
      { text: verdict, colour: COLOURS[verdict] },
      { text: check },
      { text: harmless(message) },
    ])
    const columns = ['VERDICT', 'CHECK', 'WHAT'].map((title) => ({ title }))
    await session.say(layTable(columns, rows, { hasColours: out.hasColours, hasTitles: false }).join('\n'))
  }
  return exit(diagnoses.some(({ verdict }) => verdict === 'problem') ? 'failed' : 'done')
}
