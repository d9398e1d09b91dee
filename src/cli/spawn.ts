import type { Answer, Fleet } from '../fleet/fleet.ts'
import { answerView } from '../wire/views.ts'
import { UsageError } from './arguments.ts'
import { withFleet } from './asking.ts'
import type { Invocation } from './command.ts'
import { printJson } from './json.ts'
import { readPairs } from './metadata.ts'
import { Progress } from './progress.ts'
import { resultOf } from './result.ts'
import { untilSettled, type Waiting, waitMsOf } from './settle.ts'

type Asked = Waiting & {
  backend: string | undefined
  template: string | undefined
  from: string | undefined
  env: string[]
  metadata: string[]
  ttl: string[]
  thread: string | undefined
  'wake-command': string[]
  'preview-port': number | undefined
  'idempotency-key': string | undefined
  quiet: boolean
  json: boolean
}

export async function spawn({ values, rest, session }: Invocation<Asked>): Promise<number> {
  const request = requestOf(values, rest)
  if (values.quiet && values.json) throw new UsageError('--quiet and --json are two answers: leave out one')
  return withFleet(session, async (fleet, signal) => {
    const waitMs = waitMsOf(values)
    const progress = new Progress(session, waitMs > 0 && !values.json)
    const accepted = await fleet.spawn(request)
    const onLook = progress.isShown ? (answer: Answer) => progress.update(answer) : undefined
    const answer = await untilSettled(fleet, accepted, { waitMs, signal, onLook }).finally(() => progress.end())
    const { hasColours } = session.io.out
    const { code, isGood, text } = resultOf(answer, { waitMs, isInterrupted: signal.aborted, hasColours })
    if (values.json) await session.io.out.write(printJson(answerView(answer)))
    else if (!isGood) await session.complain(text)
    else await session.say(values.quiet ? answer.sandbox.id : text)
    return code
  })
}

type Request = Parameters<Fleet['spawn']>[0]

function requestOf(values: Asked, command: string[]): Request {
  const { backend, template, from, thread, 'preview-port': previewPort, 'wake-command': commands } = values
  if (backend === undefined) throw new UsageError('spawn needs --backend <name>: where the sandbox is made')
  const env = readPairs(values.env)
  if (command.length === 0 && values.env.length > 0)
    throw new UsageError('--env is for an agent: give its command behind --')
  const key = values['idempotency-key']
  const wake = { ...(commands.length > 0 && { commands }), ...(previewPort !== undefined && { previewPort }) }
  return {
    backend,
    ...(template !== undefined && { template }),
    ...(from !== undefined && { from }),
    ...(command.length > 0 && { agent: { command, ...(values.env.length > 0 && { env }) } }),
    ...(values.metadata.length > 0 && { metadata: readPairs(values.metadata) }),
    ...(values.ttl.length > 0 && { ttl: ttlOf(values.ttl) }),
    ...(thread !== undefined && { agentThreadId: thread }),
    ...(Object.keys(wake).length > 0 && { wake }),
    ...(key !== undefined && { idempotencyKey: key }),
  }
}

/** As SANDMAN_TTL is written: `idle=30m,hard=7d`, or each by itself. */
function ttlOf(given: readonly string[]): NonNullable<Request['ttl']> {
  const pairs = given.flatMap((each) => each.split(','))
  const wrong = pairs.find((pair) => !pair.includes('='))
  if (wrong !== undefined) throw new UsageError(`--ttl ${JSON.stringify(wrong)} must be of the form limit=duration`)
  const { if_unsupported: ifUnsupported, ...limits } = readPairs(pairs)
  const unknown = Object.keys(limits).find((name) => !['idle', 'hard', 'retention'].includes(name))
  if (unknown !== undefined)
    throw new UsageError(`--ttl has no ${JSON.stringify(unknown)}: there are idle, hard, retention and if_unsupported`)
  if (ifUnsupported !== undefined && ifUnsupported !== 'kill')
    throw new UsageError('--ttl if_unsupported can only be kill')
  return { ...limits, ...(ifUnsupported !== undefined && { ifUnsupported }) }
}
