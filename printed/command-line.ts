import { type Command, GROUPS } from '../src/cli/command.ts'
import { EXITS } from '../src/cli/exits.ts'
import { argumentsOf, exitsOf, optionsOf, spell, usage } from '../src/cli/help.ts'
import { capital } from '../src/fleet/words.ts'

/** `docs/command-line.md`, printed from the table that the command line itself goes by. */
export function commandLinePage(commands: readonly Command[]): string {
  const shown = commands.filter(({ hidden }) => !hidden)
  return `# The command line

Printed from \`src/cli/commands\`; a test fails when this page is stale. \`sandman --help\` and \`sandman <command> --help\` say the
same. In a clone that has been started once, \`sandman\` is \`npx sandman\`.

It is configured by the environment, and by a file \`.env\` in the folder it is called in, as all of Sandman is. Without
\`DATABASE_URL\` it finds the database of the \`npm start\` that runs in the same folder. It asks Postgres and the queue as an app
does, so it needs no web process; what it asks for is done by the workers.

${GROUPS.map((group) => overviewOf(group, shown)).join('\n\n')}

## A session

\`\`\`sh
id=$(sandman spawn --backend local --metadata tenant=acme --quiet)
sandman exec $id -- sh -c 'echo hello > note; cat note'
sandman pause $id
sandman ls --metadata tenant=acme
sandman resume $id
sandman show $id
sandman destroy $id --yes
\`\`\`

## For people

- **Tables** fit the terminal: what is too long is cut off, ids never are. Anywhere else everything is whole.
- **Colours** only on a terminal, beside the words and never instead of them. \`NO_COLOR\` and \`TERM=dumb\` turn them off,
  \`FORCE_COLOR\` on.
- **Waiting.** Verbs wait for a minute (\`--wait 10m\` for longer, \`--no-wait\` not at all) and show meanwhile how far they are. What
  was accepted is carried out, whether anybody waits or not: Ctrl-C ends the waiting and says where to look, a second one
  ends the command at once.
- **\`--watch\`** looks every two seconds and draws in place; where it is piped, it prints the lines that are new. Ctrl-C ends it.
- **Questions.** \`kill\` and \`destroy\` ask first. Where nobody can be asked they do nothing without \`--yes\`.
- **Text of others** (metadata, errors, output) cannot do anything to a terminal: control characters are shown, not sent. \`exec\`
  and \`logs\` let colours through; where they are piped, every byte is as it was printed.

## For programs

\`--json\` prints one document, in the words of the HTTP API: names in snake_case, times in RFC 3339, durations such as \`15m\`.

| command | document |
| --- | --- |
| \`ls\` | \`{ items: [sandbox], next_cursor }\`; with \`--all\`, every one |
| \`show\` | \`{ sandbox, operations, executions, answer, story }\`, \`{ operation, sandbox }\` or \`{ execution, sandbox }\` |
| \`spawn\` | \`{ operation, sandbox }\` |
| \`pause\`, \`resume\`, \`snapshot\`, \`kill\`, \`destroy\` | \`{ items: [{ id, operation, sandbox, error }] }\`, in the order in which they were named; where there is no such sandbox, \`error\` has a \`code\` and a \`message\` and the others are null |
| \`exec --detach\`, \`cancel\` | \`{ execution, sandbox }\` |
| \`events\` | \`{ items: [event], next_cursor }\` |
| \`why\` | \`{ sandbox_id, answer, story, is_complete }\` |
| \`sweep\` | the report of [housekeeping](housekeeping.md) |
| \`doctor\` | \`{ findings: [{ check, verdict, message }] }\` |

With \`--watch\`, it is one document a line, whenever something has changed; of \`events\`, one event a line. What went wrong is on
stderr, and in the exit code:

| exit code | means |
| --- | --- |
${Object.values(EXITS)
  .map(({ code, means }) => `| ${code} | ${means} |`)
  .join('\n')}

\`exec\` ends with the code of the command that it ran, which may be any of these; only 125 is Sandman’s own. Of several
sandboxes, those that went well count for nothing; if the others ended differently, the code is 1.

${shown.map(section).join('\n\n')}
`
}

function overviewOf(group: string, commands: readonly Command[]): string {
  const rows = commands
    .filter((command) => command.group === group)
    .map(({ name, summary }) => `| [\`${name}\`](#sandman-${name}) | ${summary} |`)
  return `| ${group} | |\n| --- | --- |\n${rows.join('\n')}`
}

function section(command: Command): string {
  const cell = (text: string) => text.replaceAll('|', '\\|')
  const rows = [
    ...argumentsOf(command),
    ...optionsOf(command).map(([name, option]) => [spell(name, option), option.help] as const),
  ].map(([left, right]) => `| \`${cell(left)}\` | ${cell(right)} |`)
  return [
    `## sandman ${command.name}`,
    `${capital(command.summary)}.${command.about ? ` ${command.about}` : ''}`,
    `\`\`\`\n${usage(command)}\n\`\`\``,
    ...(rows.length > 0 ? [`| | |\n| --- | --- |\n${rows.join('\n')}`] : []),
    ...(command.examples.length > 0
      ? [`\`\`\`sh\n${command.examples.map(([line, does]) => `${line}  # ${does}`).join('\n')}\n\`\`\``]
      : []),
    `Exit codes: ${exitsOf(command)
      .map((name) => EXITS[name].code)
      .join(', ')}.`,
  ].join('\n\n')
}
