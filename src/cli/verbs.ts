import { forEach } from '../each.ts'
import { SandmanError } from '../errors.ts'
import type { Answer, Fleet } from '../fleet/fleet.ts'
import type { Kind } from '../sandbox/judge.ts'
import { answerView } from '../wire/views.ts'
import { UsageError } from './arguments.ts'
import { withFleet } from './asking.ts'
import type { Invocation } from './command.ts'
import { confirm } from './confirm.ts'
import { exit, worstOf } from './exits.ts'
import { codeOf } from './failure.ts'
import { harmless } from './harmless.ts'
import { printJson } from './json.ts'
import { Progress } from './progress.ts'
import { resultOf } from './result.ts'
import { untilSettled, type Waiting, waitMsOf } from './settle.ts'

type Asked = Waiting & { json: boolean; 'idempotency-key': string | undefined }
type Asking = { idempotencyKey?: string }

type Verb = {
  kind: Exclude<Kind, 'spawn'>
  ask: (fleet: Fleet, sandboxId: string, asking: Asking) => Promise<Answer>
  /** What it ends for ever, for who is asked whether that is meant. */
  warning?: string
  isSure?: boolean
}

/** Asks the same of every sandbox that was named, a few at a time, and waits for what comes of it. */
export function askForAll({ values, args, session }: Invocation<Asked>, verb: Verb): Promise<number> {
  const ids = [...new Set(args)]
  const { json, 'idempotency-key': idempotencyKey } = values
  if (idempotencyKey !== undefined && ids.length > 1)
    throw new UsageError('an --idempotency-key names one request: give one sandbox')
  return withFleet(session, async (fleet, signal) => {
    if (verb.warning !== undefined && !verb.isSure) {
      const answer = await confirm(fleet, session, { kind: verb.kind, warning: verb.warning, ids, signal })
      if (answer !== 'yes') return exit(answer)
    }
    const waitMs = waitMsOf(values)
    const progress = new Progress(session, waitMs > 0 && !json)
    const results = new Map<string, { code: number; document: unknown }>()

    const one = async (id: string): Promise<void> => {
      if (signal.aborted) return // it was not asked for
      try {
        const accepted = await verb.ask(fleet, id, idempotencyKey === undefined ? {} : { idempotencyKey })
        const onLook = progress.isShown ? (answer: Answer) => progress.update(answer) : undefined
        const answer = await untilSettled(fleet, accepted, { waitMs, signal, onLook })
        const { hasColours } = session.io.out
        const result = resultOf(answer, { waitMs, isInterrupted: signal.aborted, hasColours })
        results.set(id, { code: result.code, document: { id, ...answerView(answer), error: null } })
        if (json) return
        await progress.settle(id, () => (result.isGood ? session.say(result.text) : session.complain(result.text)))
      } catch (error) {
        // One that cannot be found keeps nobody from the others; a database that is away does.
        if (!(error instanceof SandmanError) || !error.code.startsWith('sandbox_')) throw error
        const { code, message } = error
        results.set(id, {
          code: codeOf(error),
          document: { id, operation: null, sandbox: null, error: { code, message } },
        })
        if (ids.length === 1 && !json) throw error
        if (!json) await progress.settle(id, () => session.complain(harmless(message)))
      }
    }

    try {
      await forEach(ids, one)
    } finally {
      await progress.end()
    }
    const items = ids.map((id) => results.get(id)).filter((result) => result !== undefined)
    if (json) await session.io.out.write(printJson({ items: items.map(({ document }) => document) }))
    const unasked = ids.filter((id) => !results.has(id))
    if (unasked.length > 0) await session.complain(`interrupted before it was asked of ${unasked.join(', ')}`)
    return unasked.length > 0 ? exit('interrupted') : worstOf(items.map(({ code }) => code))
  })
}
