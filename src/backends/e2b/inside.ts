import { PassThrough } from 'node:stream'
import type { CommandExitError, Sandbox } from 'e2b'
import { quote } from '../../quote-word.ts'
import { unlessGivenUp } from '../answer.ts'
import { BackendError, type Call } from '../backend.ts'
import type { Inside, Shell } from '../shell/shell.ts'
import type { Account } from './account.ts'
import { Unanswered } from './errors.ts'
import { expired, findInstance, type Instance, requireRunning } from './instance.ts'

/** Longer than any command may take. E2B ends a script by itself then, when nobody else does. */
const RUN_MS_MAX = 15 * 60_000
/** Longer than a script that reads an output is at it. */
const STREAM_MS_MAX = 6 * 60_000

/**
 * Does something with what runs inside. A sandbox that does not answer may have ended, or sleep: E2B's control plane knows that,
 * and is asked before anything is said.
 */
export async function enter<T>(
  account: Account,
  instance: Instance,
  call: Call,
  work: (inside: Inside) => Promise<T>,
): Promise<T> {
  try {
    return await work(insideOf(account, instance))
  } catch (error) {
    await explain(account, instance, call, error)
    throw error
  }
}

/** Fails with what is true of the sandbox, if it is not what it was. */
async function explain(account: Account, { ref, incarnation }: Instance, call: Call, error: unknown) {
  const isTelling = error instanceof BackendError ? error.type === 'sandbox_unreachable' : error instanceof Unanswered
  if (!isTelling || call.signal.aborted) return
  const now = await findInstance(account, ref, call)
  if (!now) throw expired(ref)
  requireRunning(now, { ref, incarnation })
}

/** Its agents are kept under its own name, which a sandbox that begins as a copy of it does not have. */
export function insideOf(account: Account, { ref, access }: Instance): Inside {
  // Made from what E2B has told, because to connect would wake it, and set its time-to-live.
  const sandbox = new account.sdk.Sandbox({ ...account.config, sandboxId: ref, ...access })
  return { root: ref, shell: shellOf(account, sandbox) }
}

/** The SDK takes what is said for text. The shell that it starts reads profiles, and is left behind at once. */
function shellOf({ sdk, requestTimeoutMs }: Account, { commands }: Sandbox): Shell {
  const asCommand = (script: string) => `exec sh -c ${quote(script)}`
  const isExit = (error: unknown): error is CommandExitError => error instanceof sdk.CommandExitError

  return {
    carries: 'text',
    async run(script, call) {
      const options = { timeoutMs: RUN_MS_MAX, requestTimeoutMs, signal: call.signal }
      const { exitCode, stdout } = await unlessGivenUp(commands.run(asCommand(script), options), call).catch(
        (error) => {
          if (isExit(error)) return error
          throw new Unanswered(error)
        },
      )
      return { exitCode, output: stdout }
    },
    async *stream(script, call) {
      const pipe = new PassThrough()
      pipe.on('error', () => {}) // whoever reads is told
      const giveUp = () => pipe.destroy(call.signal.reason)
      const options = { timeoutMs: STREAM_MS_MAX, requestTimeoutMs, signal: call.signal }
      // The SDK reads on when this has been taken.
      const onStdout = (text: string) => (pipe.destroyed || pipe.write(text) ? undefined : whenTaken(pipe))
      const starting = commands.run(asCommand(script), { ...options, background: true, onStdout })
      const handle = await unlessGivenUp(starting, call).catch((error) => {
        throw new Unanswered(error)
      })
      call.signal.addEventListener('abort', giveUp)
      let exitCode: number | undefined
      handle
        .wait()
        .catch((error: unknown) => {
          if (isExit(error)) return error
          throw error
        })
        .then((ended) => {
          exitCode = ended.exitCode
          pipe.end()
        })
        .catch((error: unknown) => pipe.destroy(new Unanswered(error)))
      try {
        for await (const bytes of pipe) yield bytes as Uint8Array
        return { exitCode: exitCode as number }
      } finally {
        call.signal.removeEventListener('abort', giveUp)
        pipe.destroy()
        if (exitCode === undefined) handle.kill().catch(() => {}) // it would end by itself, some minutes later
        handle.disconnect().catch(() => {})
      }
    },
  }
}

function whenTaken(pipe: PassThrough): Promise<void> {
  return new Promise((resolve) => {
    pipe.once('drain', resolve)
    pipe.once('close', resolve)
  })
}
