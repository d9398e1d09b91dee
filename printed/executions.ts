import { DEADLINE_MS, OUTPUT_BYTES } from '../src/fleet/requests.ts'
import { size } from '../src/fleet/words.ts'
import { PATIENCE } from '../src/jobs/patience.ts'
import { admit, EXECUTION_REASONS, EXECUTIONS_MAX, type ExecutionOptions } from '../src/sandbox/executions.ts'
import { STATES, type State } from '../src/sandbox/states.ts'
import { STREAM_RULES } from '../src/sandbox/stream-end.ts'
import { markdownTable } from './markdown.ts'

const ADMISSIONS: [column: string, options: ExecutionOptions][] = [
  ['without options', {}],
  ['`ifSuspended: "refuse"`', { if_suspended: 'refuse' }],
  ['`ifLost: "respawn"`', { if_lost: 'respawn' }],
]

/** `docs/executions.md`, printed from the tables that the code decides by. */
export function executionsPage(): string {
  const admission = (state: State, options: ExecutionOptions) => {
    const admitted = admit(state, options)
    return admitted.answer === 'refused' ? `refused: \`${admitted.because}\`` : admitted.answer
  }
  const seconds = (ms: number) => `${ms / 1_000} s`
  const [firstMs, mostMs] = PATIENCE.breakMs
  return `# Executions

Printed from \`src/sandbox/executions.ts\`, \`src/sandbox/stream-end.ts\` and \`src/jobs/patience.ts\`; a test fails when this page
is stale.

An execution is one run of an agent in a sandbox. With a \`command\`, that is run inside as the agent; without one, the execution
follows the agent that the sandbox was made with, from its first byte. Its output is kept byte for byte, and its end is
recorded once, in one statement with its event.

\`\`\`
queued → running → succeeded | failed | cancelled
\`\`\`

## Before it begins

What becomes of an execution in whichever state its sandbox is: judged when it is asked for, and again, by the same table,
whenever an operation on its sandbox has settled. *Wake* means that the sandbox is resumed first, or replaced. A sandbox may
have ${EXECUTIONS_MAX} executions at a time. What is refused at once is thrown, as \`execution_refused\`.

${markdownTable(
  ['sandbox', ...ADMISSIONS.map(([column]) => column)],
  STATES.map((state) => [`**${state}**`, ...ADMISSIONS.map(([, options]) => admission(state, options))]),
)}

Before it is started the provider is looked at: a sandbox that is said to run and is not there is ended as gone first, which
with \`ifLost: "respawn"\` means that it is replaced.

## When its output ends

The worker that follows an execution attaches to the output behind the last byte that is kept. Whenever that ends or is cut, it
asks for the **status of the agent itself**, and never for that of the sandbox: a sidecar keeps a sandbox running whose agent is
dead. Then the first of these rules decides that applies:

${markdownTable(
  ['the agent is', 'and', 'then'],
  STREAM_RULES.map(({ agent, and, says }) => [agent, and, says]),
)}

- **N** is ${PATIENCE.breaksMax}. The count is kept in the row and read by whoever comes next; a byte of output sets it back, and so does an
  output that held for ${seconds(PATIENCE.heldMs)}. Between two tries are ${firstMs} ms, then twice as much, up to ${seconds(mostMs)}: so the
  status, which may lag for seconds, is asked for often enough before anything is said to be lost.
- **Read to its end** is an output of which its backend says so, or that came to its end ${PATIENCE.emptyEnds} times in a row without a byte after
  the agent had ended: that a stream ends means nothing. When for ${seconds(PATIENCE.drainMs)} no byte could be read of what an ended agent has
  left, the execution ends without it, and its message says so.
- **Deadlines** are fixed when the execution is asked for, and the database refuses to move one: the hard one (\`deadline\`,
  ${DEADLINE_MS / 3_600_000} hours unless the caller says otherwise), and that of silence (\`silence\`), which counts from the last byte. When one
  passes, the agent is stopped, and why is written down before that; so whatever it says and does then, that is why it ended. An
  agent that has ended before it was stopped has ended by itself, also when that is seen late. ${seconds(PATIENCE.overdueMs)} after the hard deadline, or
  after the stop because of silence, the execution fails even if nobody can say whether that worked.
- **Silence** is what somebody has listened to: for as long as it may last, or for ${seconds(PATIENCE.listenMs[1])} if that is less, but for ${seconds(PATIENCE.listenMs[0])} at
  the least. Whoever takes over from a worker that died hears first what was said meanwhile. It begins when the agent was
  started, and is not looked at while the provider does not answer, or when the output was cut off at its limit.
- An output that hangs does not end. An agent that is silent for ${seconds(PATIENCE.quietMs)} is asked for its status, and after
  ${seconds(PATIENCE.staleMs)} its output is attached to anew.
- **Cancelling** stops the agent, within about a second, or once its start was answered; the execution is cancelled when the
  agent was seen to have ended. If that cannot be stopped, it is tried again until the hard deadline.

## How it ended

${markdownTable(
  ['reason', 'means'],
  Object.entries(EXECUTION_REASONS).map(([reason, means]) => [`\`${reason}\``, means]),
)}

\`exitCode\` is the agent's own, and 128 and the number of the signal for one that was ended by a signal: 137 is a kill.

## Pausing a sandbox that works

A pause of a sandbox with executions, queued or running, is refused as \`sandbox_busy\`. With \`ifBusy: "wait"\` it is done when all
that was asked for before it has ended, and gives way if anything is asked of the sandbox meanwhile, an execution included. With \`ifBusy: "interrupt"\` commands are stopped
and their executions cancelled first; the agent that the sandbox was made with is not stopped, it sleeps with the sandbox, and
only the execution that followed it ends. A kill and a destroy cancel what runs; what that has printed in its last moments may
not be kept. A sandbox that turns out to be lost, or was put
to sleep by its provider, takes its executions with it: \`instance_lost\`.

## Reading the output

\`fleet.output(id, { from })\` yields pieces \`{ from, to, bytes }\` from any byte on, and then what is printed, until the execution
has ended. A reader that comes back goes on with \`from: lastPiece.to\`. However many read, they wait in one room (see
[internals.md](internals.md#waiting)); while nothing is printed they cost nothing of their own. Bytes are bytes: a piece may end
in the middle of a character, so decode with \`new TextDecoder().decode(bytes, { stream: true })\`.

At most \`outputBytesMax\` bytes are kept (${size(OUTPUT_BYTES)} unless the caller says otherwise), and then a line that says so; \`truncated\` is
true, and the rest is not read. The output of an execution that ended long ago is forgotten (\`SANDMAN_KEEP\`, 30 days unless it says
otherwise): then there is nothing to read, while \`outputBytes\` still says how much there was.
`
}
