import { type Finding, ITEMS_MAX, isWell, type Sweep, type SweepReport } from '../fleet/sweep.ts'
import { count, duration, when } from '../fleet/words.ts'

/** What a sweep has found, for a terminal. */
export function printReport(report: SweepReport): string {
  const { sweeps, unanswered, findings, overdue, isCut } = report
  const asked = sweeps.length === 0 && unanswered.length === 0
  const nothing = asked
    ? 'This fleet has no sandboxes, and was never swept: nobody was asked.'
    : isWell(report)
      ? 'Everything is as it should be.'
      : 'Nothing was found where it could be seen.'
  const lines = [
    ...sweeps.map(printSweep),
    ...unanswered.map(
      (backend) =>
        `${backend}: not swept within the time. Another sweep of it may be under way (ask again, or --wait longer); or no worker has it (SANDMAN_BACKENDS) and takes the queue sweeper.`,
    ),
    '',
    findings.length === 0 ? nothing : `${findings.length} found:`,
    ...findings.map(printFinding),
    '',
    `${overdue.length === 0 ? 'No sandbox is past a limit' : `${overdue.length} past a limit`}, by their own and by SANDMAN_TTL as it is here.`,
    ...overdue.map(
      ({ sandboxId, does, what, since, limit, limitMs, of }) =>
        `  ${sandboxId}: would ${does}. ${what} Its ${limit} limit, ${of === 'sandbox' ? 'its own' : "the fleet's"}, is ${duration(limitMs)} from ${when(since)}.`,
    ),
    ...(isCut ? ['', `There is more: a report holds ${ITEMS_MAX} of each.`] : []),
  ]
  return lines.join('\n')
}

function printSweep(sweep: Sweep): string {
  const {
    backend,
    place,
    round,
    instances,
    checkpoints,
    endedAt,
    sweptAt,
    isUnswept,
    believedUntil,
    failing,
    stopped,
  } = sweep
  const seen = `${count(instances, 'instance')} and ${count(checkpoints, 'checkpoint')} of this fleet`
  return [
    `${backend} at ${place}: round ${round}, ${seen}, ${endedAt ? `compared ${when(endedAt)}` : 'never compared to the end'}`,
    ...(stopped
      ? [
          `  STOPPED since ${when(stopped.since)}: ${stopped.because}`,
          '  Nothing is ended there. What is missing is found below; if it is true, say so with --believe.',
        ]
      : []),
    ...(failing
      ? [`  FAILING since ${when(failing.since)}: ${failing.message}. Nothing is ended there until it answers.`]
      : []),
    ...(isUnswept
      ? [`  NOT SWEPT since ${sweptAt ? when(sweptAt) : 'ever'}: no worker sees this place any more.`]
      : []),
    ...(believedUntil ? [`  Believed until ${when(believedUntil)}, whatever it shows.`] : []),
  ].join('\n')
}

function printFinding({
  kind,
  sandboxId,
  ref,
  what,
  does,
  looks,
  lookAt,
  isCertain,
  actedAt,
  operationId,
}: Finding): string {
  const next =
    actedAt !== null
      ? `done at ${when(actedAt)}${operationId ? ` by ${operationId}` : ''}`
      : isCertain
        ? `seen twice; with the next tick that may act, after ${when(lookAt as Date)}: ${does}`
        : `only suspected: looked at again after ${when(lookAt as Date)}`
  const seen = looks.map(
    ({ at, place, asked, saw }) => `    ${when(new Date(at))} at ${place}: asked for ${asked}; ${saw}.`,
  )
  return [`  ${kind} ${ref} (${sandboxId}): ${what}`, ...seen, `    ${next}`].join('\n')
}
