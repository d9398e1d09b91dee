import { COUNTING, type Incident, mark, outcomeOf, verdict, WAIT } from '../incident.ts'

const REPLY = 'I am here'
const MESSAGE = `echo "${REPLY}"`

/** A driver inherits a pause that stops, and a resume that does nothing. */
export const pauseThatDeletes: Incident = {
  letter: 'B',
  title: 'Pause that deletes, resume that does nothing',
  happened:
    'A driver had no pause of its own and inherited a default: stop, which deletes. Its resume was a default, too: nothing. Two thousand rows said suspended before somebody noticed, and every message to one of those agents failed.',
  provider: { name: 'only-stops', canPause: false },

  async usual({ code, machine, say }) {
    const { id, ref } = await code.create({ agent: COUNTING })
    say(`A sandbox runs. Processes: ${await machine.processesOf(ref)}.`)
    await code.pause(id)
    const processes = await machine.processesOf(ref)
    const paused = (await code.row(id)).status
    say(`Paused. The row: ${paused}. Processes: ${processes}.`, mark(processes > 0))
    const answers: string[] = []
    for (const who of ['Its user writes', 'And writes again']) {
      const answer = await code.send(id, MESSAGE).catch((error: Error) => error.message.replaceAll(ref, id))
      answers.push(answer)
      say(`${who}: "${answer.trim()}".`, mark(answer.includes(REPLY)))
    }
    const row = (await code.row(id)).status
    return verdict(
      paused === 'suspended' && processes === 0 && row === 'running' && !answers.some((text) => text.includes(REPLY)),
      { paused, row, processes, answers },
      `Deleted by a pause. The row now says ${row}, and every message fails. Processes: ${processes}.`,
    )
  },

  async sandman({ fleet, backend, machine, say }) {
    const { sandbox } = await fleet.spawn({ backend, agent: COUNTING, agentThreadId: 'thread-1', ...WAIT })
    const { id, providerRef } = sandbox
    say(`A sandbox runs: ${id}. Processes: ${await machine.processesOf(providerRef)}.`)
    const refused = await fleet.pause(id, WAIT)
    const processes = await machine.processesOf(providerRef)
    const isAlive = await machine.counts(providerRef)
    const pause = outcomeOf(refused.operation)
    say(
      `Pause ${refused.operation.status}: ${pause}. A backend that cannot has no method to call. Processes: ${processes}.`,
      mark(isAlive),
    )
    const ended = await fleet.pause(id, { ifUnsupported: 'kill', ...WAIT })
    const { state, goneReason } = ended.sandbox
    say(
      `Asked to end it instead, it does. The row: ${state}, because of ${goneReason}.`,
      mark(goneReason === 'pause_unsupported'),
    )
    const { execution } = await fleet.execute(id, { command: ['sh', '-c', MESSAGE], ifLost: 'respawn', ...WAIT })
    const fresh = await fleet.get(id)
    const answer = await textOf(fleet.output(execution.id))
    say(`Its user writes. A fresh sandbox under the same id answers: "${answer}".`, mark(answer === REPLY))
    const history = (await fleet.events(id)).items.flatMap(({ to }) => to ?? [])
    const facts = {
      pause,
      processesAfterIt: processes,
      endedAs: goneReason,
      history,
      answer,
      row: fresh.state,
      thread: fresh.agentThreadId,
      processes: await machine.processesOf(fresh.providerRef),
    }
    const held =
      pause === 'pause_unsupported' &&
      isAlive &&
      goneReason === 'pause_unsupported' &&
      !history.includes('suspended') &&
      answer === REPLY &&
      facts.thread === null &&
      facts.row === 'running'
    return verdict(
      held,
      facts,
      `Never said to sleep when it did not. The pause was refused, and it ran on; ended on purpose, it was replaced when it was needed. Processes: ${facts.processes}.`,
    )
  },
}

async function textOf(output: AsyncIterable<{ bytes: Uint8Array }>): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const { bytes } of output) text += decoder.decode(bytes, { stream: true })
  return text.trim()
}
