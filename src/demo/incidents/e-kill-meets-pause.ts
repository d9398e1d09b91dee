import type { Answer } from '../../fleet/fleet.ts'
import { COUNTING, type Incident, mark, outcomeOf, verdict, WAIT } from '../incident.ts'

const LEFT_ALONE = 'already_done, and it is suspended'

/** The same request, a moment earlier or later, has opposite results. */
export const killMeetsPause: Incident = {
  letter: 'E',
  title: 'Kill meets pause',
  happened:
    'A kill arrived while its sandbox was being paused, and ended what its user had just put to sleep. So a kill was made to wait for a pause, and to leave it alone. One that arrived a millisecond after the pause still killed.',
  provider: { name: 'takes-its-time', canPause: true },

  async usual({ code, machine, say }) {
    const [during, after] = await Promise.all([code.create({ agent: COUNTING }), code.create({ agent: COUNTING })])
    await machine.setFault('takes its time')
    const pausing = code.pause(during.id)
    pausing.catch(() => {}) // awaited below, unless somebody leaves before that
    await machine.until(async () => (await machine.calls('suspend', during.ref)) > 0)
    say('A pause is under way, and takes its time.', 'fault')
    const meanwhile = Promise.all([code.kill(during.id), code.snapshot(during.id)])
    meanwhile.catch(() => {})
    await machine.until(async () => code.waiting === 2)
    await machine.setFault(undefined)
    await pausing
    const [killedDuring, snapshot] = await meanwhile
    say(`A kill during the pause: "${killedDuring}". Processes: ${await machine.processesOf(during.ref)}.`)
    const snapshots = await machine.calls('snapshot', during.ref)
    say(`A snapshot during it: "${snapshot}". Snapshots taken: ${snapshots}.`, mark(snapshots > 0))
    await code.pause(after.id)
    const killedAfter = await code.kill(after.id)
    say(
      `A kill after the pause: "${killedAfter}". Processes: ${await machine.processesOf(after.ref)}.`,
      mark(killedAfter === killedDuring),
    )
    const facts = {
      killDuring: killedDuring,
      processesAfterKillDuring: await machine.processesOf(during.ref),
      killAfter: killedAfter,
      processesAfterKillAfter: await machine.processesOf(after.ref),
      snapshotDuring: snapshot,
      snapshotsTaken: snapshots,
    }
    const failed =
      killedDuring !== killedAfter &&
      facts.processesAfterKillDuring > 0 &&
      facts.processesAfterKillAfter === 0 &&
      snapshots === 0
    return verdict(
      failed,
      facts,
      `One sandbox sleeps and the other is gone, for the same two requests. And a snapshot that was never taken was "${snapshot}".`,
    )
  },

  async sandman({ fleet, backend, machine, say }) {
    const spawn = () => fleet.spawn({ backend, agent: COUNTING, ...WAIT })
    const [{ sandbox: during }, { sandbox: after }] = await Promise.all([spawn(), spawn()])
    await machine.setFault('takes its time')
    const { operation: pausing } = await fleet.pause(during.id)
    await machine.until(async () => (await machine.calls('suspend', during.providerRef)) > 0)
    say(`A pause of ${during.id} is under way, and takes its time.`, 'fault')
    const { operation: waiting } = await fleet.kill(during.id)
    const { operation: snapshot } = await fleet.snapshot(during.id)
    await machine.setFault(undefined)
    await fleet.operation(pausing.id, WAIT)
    const killedDuring = await fleet.operation(waiting.id, WAIT)
    say(
      `A kill during the pause: ${waiting.status} in line, and then ${told(killedDuring)}.`,
      mark(told(killedDuring) === LEFT_ALONE),
    )
    say(
      `A snapshot during it: ${snapshot.status}, ${outcomeOf(snapshot)}.`,
      mark(outcomeOf(snapshot) === 'invalid_transition'),
    )
    await fleet.pause(after.id, WAIT)
    const killedAfter = await fleet.kill(after.id, WAIT)
    say(`A kill after the pause of ${after.id}: ${told(killedAfter)}.`, mark(told(killedAfter) === LEFT_ALONE))
    const ends = (await machine.calls('end', during.providerRef)) + (await machine.calls('end', after.providerRef))
    const resumed = await Promise.all([fleet.resume(during.id, WAIT), fleet.resume(after.id, WAIT)])
    const goOn = await Promise.all([during, after].map(({ providerRef }) => machine.counts(providerRef)))
    say(`Their users come back. Sandboxes that count on: ${goOn.filter(Boolean).length}.`, mark(goOn.every(Boolean)))
    const facts = {
      killDuring: told(killedDuring),
      killAfter: told(killedAfter),
      snapshotDuring: outcomeOf(snapshot),
      endsAtTheProvider: ends,
      rowsAfterwards: resumed.map(({ sandbox }) => sandbox.state),
    }
    const held =
      facts.killDuring === facts.killAfter &&
      facts.killDuring === LEFT_ALONE &&
      facts.snapshotDuring === 'invalid_transition' &&
      ends === 0 &&
      goOn.every(Boolean)
    return verdict(
      held,
      facts,
      `The same result for both: ${facts.killDuring}. The provider was asked to end ${ends} of them, and both came back.`,
    )
  },
}

function told({ operation, sandbox }: Answer): string {
  return `${outcomeOf(operation)}, and it is ${sandbox.state}`
}
