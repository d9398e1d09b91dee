import {
  type Condition,
  JUDGEMENTS,
  KINDS,
  type Kind,
  LINE_MAX,
  REFUSED_AT_ONCE,
  type Ruling,
} from '../src/sandbox/judge.ts'
import {
  ENTRIES,
  GONE_REASONS,
  IN_FLIGHT_STATES,
  type InFlightState,
  moveBetween,
  SETTLED_STATES,
  type SettledState,
  STATES,
} from '../src/sandbox/states.ts'

/** The lifecycle for people, printed from the tables that decide: `docs/lifecycle.md` is this, and so is the console's. */

const CONDITIONS: Record<Condition, string> = {
  backend_cannot: 'if its backend cannot',
  busy: 'if executions run in it, without `if_busy`',
  backend_cannot_and_may_kill: 'if its backend cannot, with `if_unsupported: "kill"`',
  may_respawn: 'with `if_lost: "respawn"`',
}

/** What a request does with a sandbox that rests, as a table in Markdown. */
function judgementTable(): string {
  const rows = SETTLED_STATES.map((state) => row([`**${state}**`, ...KINDS.map((kind) => describe(state, kind))]))
  return [row(['settled state', ...KINDS]), row(['', ...KINDS].map(() => '---')), ...rows].join('\n')
}

/** What a request does that arrives while an operation is in flight. */
function arrivalTable(): string {
  const answer = (state: InFlightState, kind: Kind) =>
    REFUSED_AT_ONCE[kind]?.includes(state) ? 'refused: `invalid_transition`' : 'joins its equal, or waits'
  const rows = IN_FLIGHT_STATES.map((state) => row([`**${state}**`, ...KINDS.map((kind) => answer(state, kind))]))
  return [row(['in flight', ...KINDS]), row(['', ...KINDS].map(() => '---')), ...rows].join('\n')
}

/** Every move, as a table in Markdown: from each row to each column. */
function moveTable(): string {
  const rows = STATES.map((from) => row([`**${from}**`, ...STATES.map((to) => moveBetween(from, to) ?? '')]))
  return [row(['from \\ to', ...STATES]), row(['', ...STATES].map(() => '---')), ...rows].join('\n')
}

/** The states and their moves, in Mermaid's language. */
export function stateDiagram(): string {
  const edge = (from: string, to: string, name: string) => `  ${from} --> ${to}: ${name}`
  const entries = Object.entries(ENTRIES).map(([to, name]) => edge('[*]', to, name))
  const moves = STATES.flatMap((from) =>
    STATES.flatMap((to) => {
      const name = moveBetween(from, to)
      return name ? [edge(from, to, name)] : []
    }),
  )
  return ['stateDiagram-v2', ...entries, ...moves].join('\n')
}

/** The whole page. */
export function lifecyclePage(): string {
  const list = (words: readonly string[]) => words.map((word) => `\`${word}\``).join(', ')
  return `# Lifecycle

Printed from \`src/sandbox\` by the tests; to change it, change the tables there and run \`npm test -- -u\`.

A sandbox **rests** in ${list(SETTLED_STATES)}, and is **in flight** in ${list(IN_FLIGHT_STATES)} while an operation
works on it. Requests are judged against the state a sandbox rests in, never against a moving one: what arrives meanwhile
waits in that sandbox's own line. So no answer depends on which side of a commit a request arrived.

\`\`\`mermaid
${stateDiagram()}
\`\`\`

## What a request does

${judgementTable()}

- **Kill frees compute.** On a suspended sandbox there is none left to free, whether the kill arrived during the pause or a
  year later. If the pause it waits for fails, the kill does its work. **Destroy** means: and forget it, checkpoints too.
- **Already done** is a success. About a suspended sandbox it names the checkpoint: a snapshot that is asked for twice, or
  after a pause, is the one that is there.
- An answer that needs no work is still an operation, so every request has an id and every idempotency key names one.
- \`spawn\` here is one for an id that exists already; as a rule it makes a new sandbox.

## While an operation is in flight

${arrivalTable()}

- A request **joins** when the last in line asks for exactly the same, with the same options: one performer, one result for
  all. It does not join one further ahead, because that would overtake what was asked in between.
- Otherwise it **waits**, and when its turn comes it is judged by the table above. At most ${LINE_MAX} wait for one sandbox; the
  next is refused as \`rate_limited\`.
- A snapshot is refused at once while what it would copy is being taken away.

## Moves

The name is the type of the event in the sandbox's history. Every move is written in the same statement as its event.

${moveTable()}

## Gone

Gone is final, and has a reason: ${list(GONE_REASONS)}. Only a resume that asks for a respawn
(\`if_lost: "respawn"\`) begins a new life under the same id, with nothing of the old one but its history. So no sandbox of Sandman's own is ever gone as
\`replaced\`: that is for one that is imported, and had made way for another under another id.
`
}

function describe(state: SettledState, kind: Kind): string {
  const { usually, ...others } = JUDGEMENTS[state][kind] as { usually: Ruling } & Partial<Record<Condition, Ruling>>
  const unusual = Object.entries(others).map(
    ([condition, ruling]) => `${CONDITIONS[condition as Condition]}: ${describeRuling(ruling)}`,
  )
  return [describeRuling(usually), ...unusual].join('; ')
}

function describeRuling(ruling: Ruling): string {
  if (ruling.answer === 'work') return `work: \`${ruling.state}\``
  if (ruling.answer === 'refused') return `refused: \`${ruling.because}\``
  return 'already done'
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`
}
