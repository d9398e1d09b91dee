import { VERIFY_AGAIN_MS } from '../src/db/bell-times.ts'
import { capital, duration } from '../src/fleet/words.ts'
import { HOUSEKEEPING } from '../src/jobs/housekeeping.ts'
import { PATIENCE } from '../src/jobs/patience.ts'
import { reaperQueue } from '../src/queues/reaper.ts'
import { sweeperQueue } from '../src/queues/sweeper.ts'
import { FINDINGS, SUDDEN_MIN } from '../src/sandbox/findings.ts'
import { LIMITS } from '../src/sandbox/limits.ts'
import { markdownTable } from './markdown.ts'

/** `docs/housekeeping.md`, printed from the tables that the code decides by. */
export function housekeepingPage(): string {
  const [reapEveryMs, sweepEveryMs] = [reaperQueue.everyMs ?? 0, sweeperQueue.everyMs ?? 0]
  const { looksApartMs, graceMs, roundMs, reapAgainMs, failuresMax, overdueMs, remainsMs, deadlineMs } = HOUSEKEEPING
  return `# Reaper and sweeper

Printed from \`src/sandbox/limits.ts\`, \`src/sandbox/findings.ts\` and \`src/jobs/housekeeping.ts\`; a test fails when this page is
stale.

Both are scheduled jobs (BullMQ's job schedulers), on any number of workers. The reaper ends what has lived, slept or idled for as
long as it may. The sweeper compares what is written down with what the providers have, from both sides. Each tick is bounded: it
begins nothing more after ${duration(HOUSEKEEPING.tickMs)}, and ends no more than \`SANDMAN_DESTROY_MAX\`; the next one goes on where it stopped.
Limits have a half of the reaper's tick at most. The rest is done side by side, and a provider that hangs, or fails ${failuresMax} times in a row with its list
as well, is not asked to renew any more time in that tick: so an outage of one keeps nothing waiting that is of another.

## Limits

Every sandbox may have limits of its own (\`ttl: { idle, hard, retention, ifUnsupported }\` of \`spawn\` and \`adopt\`); for what it says
nothing about, those of its fleet hold (\`SANDMAN_TTL\`, the same for all workers), from the moment they are changed. The reaper looks
every ${duration(reapEveryMs)}.

${markdownTable(
  ['limit', 'reached means', 'then', 'counted from'],
  Object.entries(LIMITS).map(([name, { means, does, countsFrom }]) => [`\`${name}\``, means, does, countsFrom]),
)}

- **Activity** is waking, an execution, and \`fleet.touch(id)\`, which an app may call as often as it likes: it is written down once a
  second at most. It begins the idle limit anew, and no other. Nothing that runs inside of a sandbox can extend anything.
- A sandbox in which an execution is queued or runs does not idle, and is not destroyed at its retention. The hard limit ends it all
  the same. The agent that a sandbox was made with is no execution: to whom it matters, an execution follows it, or an app touches it.
- Where a backend cannot pause, the idle limit does nothing, unless \`ifUnsupported: "kill"\` says that it ends the sandbox.
- Who uses a sandbox at the very moment in which it is due is first: what was touched is not paused, and what was woken is not
  destroyed for having slept.
- What could not be done is asked for again after ${duration(reapAgainMs)}.
- A sandbox that must outlast the limits of its fleet has a long one of its own: up to ten years.
- **Executions** past a deadline are ended by whoever follows them. Those that nobody has ended ${duration(deadlineMs)} after their hard deadline,
  because no worker takes the queue \`streams\` or has their backend, are ended by the reaper, which stops the agent first.
- **Leases.** Some providers end or pause a sandbox by themselves when its time there is over. For one that is to run on, the reaper
  sets that time anew when no more than ${duration(PATIENCE.leaseMs / 2)} of it are left, and never beyond its hard limit: so it ends by itself only when no
  worker is left to say otherwise. One that was put to sleep all the same is written down as suspended.
- **Pruning**: events (but never the last state change of a sandbox), the output of executions that have ended, and idempotency
  keys are forgotten when they are old (\`SANDMAN_KEEP\`; [90, 30 and 7 days](configuration.md) unless it says otherwise). Sandboxes, operations and executions stay.

## What the sweeper finds

It looks at each backend every ${sweepEveryMs / 1_000} seconds, on whichever worker comes first, and begins a new round, through all that a provider lists and all
sandboxes that rest, every ${duration(roundMs)}. A fleet has one place for each backend, one machine or one engine ([scaling.md](scaling.md#one-machine)); of several, each is looked at only
when a worker there comes first.
Only what carries the label of this fleet is in those lists, and nothing else is ever touched.

${markdownTable(
  ['found', 'means', 'then'],
  Object.entries(FINDINGS).map(([kind, { means, does }]) => [`\`${kind}\``, means, does]),
)}

**Nothing is ended because of a list.** What a list lacks is looked at by its own name, and only suspected. ${capital(duration(looksApartMs))} later at
the earliest (${duration(graceMs)} for what nobody owns, because whoever made it may be about to say so) it is looked at again, by its name. Only what was twice not as it
should be is acted on, and only if a whole round was believed since the first look; and a sandbox is ended by an operation like any other, which looks once more before it does anything. What was
seen, where and when is kept with the finding, with the operation, and in the events: \`sandman why <id>\` tells it.

**A provider that cannot be believed** stops the sweep of that place, and only of that:

- *failing*: a list did not come to its end. Nothing is concluded until a whole list was read again. When only single looks bring no
  answer, ${failuresMax} in a row, a list is asked for; if that works, only those are left for later.
- *stopped*: of the sandboxes that a worker or an earlier list has known, a third or more (and ${SUDDEN_MIN} at the least) are suddenly not
  there, or their checkpoints are not, and their time was not up: the provider has lost its memory, or is asked with the wrong key. Or as many carry this fleet's
  label and belong to sandboxes that this database has never heard of, as when two deployments have the same fleet name; one is enough
  where the database has never had a sandbox of this fleet. It goes on
  by itself when what is missing is shown again. If it is true, somebody has to say so: \`sandman sweep --believe\`, which holds for an hour and for
  whatever is shown then. Rows that were imported and
  that no worker has known are not counted: those with nothing behind them are found, however many they are.

\`sandman doctor\`, \`sandman sweep\` and the log say so.

**Checkpoints.** Young ones are looked at again when they are ${VERIFY_AGAIN_MS.map((ms) => duration(ms)).join(' and ')} old, because an upload may fail after it was seen. Those that nothing rests on are
deleted, but never a snapshot that somebody asked for, or has imported as one, as long as its sandbox lives. Where a sandbox is woken without its checkpoint (as
on the local backend, whose frozen processes are what it is), a missing one does not end it. What is left of a sandbox that is gone is kept for
as long as it would have been kept asleep (its \`retention\`); without a retention ${duration(remainsMs)}, and snapshots that were asked for then
stay for ever.

**Operations** that nobody takes are rung for again by every worker, within seconds (see [architecture.md](architecture.md)). Those that
nobody has begun to work on for ${duration(overdueMs)} the sweeper works on itself, without a queue: it looks, and settles what is true.

## Looking without touching

\`\`\`sh
sandman sweep --dry-run            # what would be done, why, and what was seen; exit code 1 if a provider cannot be believed
SANDMAN_SWEEPER=report             # the same for good: findings are written down, and nothing is done about them
\`\`\`

\`fleet.sweep({ dryRun: true })\` is the same for apps. Workers do the looking, because they are where the providers can be seen. What was found for the
first time is only suspected; ask again after the time that the report names. Which sandboxes are past the limits of their fleet is
reported by \`SANDMAN_TTL\` as it is where the command runs, or by the \`ttl\` of \`createFleet\`; workers act by their own. A place that no worker has swept
for three rounds is said to be *not swept*: its machine, its folder or its key may be gone, and nobody can say what is there.
`
}
