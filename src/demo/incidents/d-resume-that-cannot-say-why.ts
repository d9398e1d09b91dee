import { findFreePort } from '../../embedded/service.ts'
import type { Answer } from '../../fleet/fleet.ts'
import { answerOf, COUNTING, type Incident, mark, outcomeOf, verdict, WAIT } from '../incident.ts'

/** A provider that is away for a moment and a sandbox that is no more look the same to whoever asks. */
export const resumeThatCannotSayWhy: Incident = {
  letter: 'D',
  title: 'Resume that cannot say why',
  happened:
    'A user came back to a preview, and it could not be resumed. Had it expired, so that only a rebuild helps, or was the provider away for a moment? The answer was the same, so the app did the same: it started over, and threw away what was still there.',
  provider: { name: 'goes-away', canPause: true },

  async usual({ code, machine, say }) {
    const [expired, asleep] = await Promise.all([code.create({ agent: COUNTING }), code.create({ agent: COUNTING })])
    await machine.hasCountedTo(5, asleep.ref)
    await Promise.all([code.pause(expired.id), code.pause(asleep.id)])
    say('Two previews sleep.')
    await machine.expire(expired.ref)
    say('The time of the first is over: its provider deletes it.', 'fault')
    const ofExpired = await answerOf(code.resume(expired.id))
    say(`Its user comes back: "${ofExpired}". The app starts over.`)
    await machine.setFault('is away')
    say('Then the provider is away for a moment.', 'fault')
    const ofAsleep = await answerOf(code.resume(asleep.id))
    await machine.setFault(undefined)
    say(`The second user comes back: "${ofAsleep}". The app starts over.`, mark(ofAsleep !== ofExpired))
    const fresh = await code.create({ agent: COUNTING })
    const facts = {
      ofTheExpired: ofExpired,
      ofTheOther: ofAsleep,
      processesLeftOfTheOther: await machine.processesOf(asleep.ref),
      countedLost: await machine.countOf(asleep.ref),
      startedOverAs: fresh.id,
    }
    return verdict(
      ofExpired === ofAsleep && facts.processesLeftOfTheOther > 0 && facts.countedLost > 0,
      facts,
      `The same words for both. What the second user had was still there, counted to ${facts.countedLost}: thrown away, and paid for. Processes: ${facts.processesLeftOfTheOther}.`,
    )
  },

  async sandman({ fleet, backend, machine, say }) {
    const previewPort = await findFreePort()
    const server = `require('http').createServer((_, answer) => answer.end('hello')).listen(${previewPort}, '127.0.0.1')`
    const wake = { commands: [`'${process.execPath}' -e "${server}" >server.log 2>&1 &`], previewPort }
    const [{ sandbox: expired }, { sandbox: asleep }] = await Promise.all([
      fleet.spawn({ backend, agent: COUNTING, ...WAIT }),
      fleet.spawn({ backend, agent: COUNTING, wake, ...WAIT }),
    ])
    await machine.hasCountedTo(5, asleep.providerRef)
    await Promise.all([fleet.pause(expired.id, WAIT), fleet.pause(asleep.id, WAIT)])
    const counted = await machine.countOf(asleep.providerRef)
    say(`Two previews sleep: ${expired.id} and ${asleep.id}.`)
    await machine.expire(expired.providerRef)
    say('The time of the first is over: its provider deletes it.', 'fault')
    const first = await fleet.resume(expired.id, WAIT)
    say(
      `Its user comes back: ${told(first)}. The app offers a rebuild.`,
      mark(outcomeOf(first.operation) === 'sandbox_expired'),
    )
    await machine.setFault('is away')
    say('Then the provider is away for a moment.', 'fault')
    const second = await fleet.resume(asleep.id, WAIT)
    say(
      `The second user comes back. Tried ${second.operation.attempt} times: ${told(second)}. The app offers a retry.`,
      mark(outcomeOf(second.operation) === 'sandbox_unreachable'),
    )
    await machine.setFault(undefined)
    const third = await fleet.resume(asleep.id, WAIT)
    const status = third.sandbox.previewUrl ? (await fetch(third.sandbox.previewUrl)).status : null
    const goesOn = await machine.counts(asleep.providerRef)
    say(
      `And retries: ${third.sandbox.state}. Its preview answers: ${status}. It counts on from ${counted}: ${goesOn ? 'yes' : 'no'}.`,
      mark(goesOn),
    )
    const facts = {
      ofTheExpired: outcomeOf(first.operation),
      rowOfTheExpired: first.sandbox.state,
      ofTheOther: outcomeOf(second.operation),
      mayRetry: second.operation.error?.retryable ?? null,
      rowOfTheOther: second.sandbox.state,
      rowAfterTheRetry: third.sandbox.state,
      previewStatus: status,
      countedAtThePause: counted,
      countedNow: await machine.countOf(asleep.providerRef),
    }
    const held =
      facts.ofTheExpired === 'sandbox_expired' &&
      facts.rowOfTheExpired === 'gone' &&
      facts.ofTheOther === 'sandbox_unreachable' &&
      facts.mayRetry === true &&
      facts.rowOfTheOther === 'suspended' &&
      facts.rowAfterTheRetry === 'running' &&
      status === 200 &&
      goesOn
    return verdict(
      held,
      facts,
      `Two words to switch on: ${facts.ofTheExpired} and ${facts.ofTheOther}. Nothing was thrown away: counted from ${counted} to ${facts.countedNow}.`,
    )
  },
}

function told({ operation, sandbox }: Answer): string {
  return `${outcomeOf(operation)}, and it is ${sandbox.state}`
}
