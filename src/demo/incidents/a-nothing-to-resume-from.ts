import { answerOf, COUNTING, type Incident, mark, outcomeOf, verdict, WAIT } from '../incident.ts'

/** A pause is believed, and what it should have left behind is not there. */
export const nothingToResumeFrom: Incident = {
  letter: 'A',
  title: 'Suspended, but nothing to resume from',
  happened:
    'A sandbox was paused a second time. The provider said "checkpoint received", and stored none. From then on its row said suspended, and every resume failed with a message that named no reason.',
  provider: { name: 'loses-uploads', canPause: true },

  async usual({ code, machine, say }) {
    const { id, ref } = await code.create({ agent: COUNTING })
    await machine.hasCountedTo(5, ref)
    await code.pause(id)
    await code.resume(id)
    say('Paused and resumed once. Its agent counts in memory.')
    await machine.setFault('loses uploads')
    await code.pause(id)
    say('Paused again. The provider says "checkpoint received", and loses it.', 'fault')
    say(`The row: ${(await code.row(id)).status}.`)
    await machine.freeWhatSleeps()
    say('The provider frees the memory of what sleeps.', 'fault')
    const answers: string[] = []
    for (const who of ['Its user comes back', 'And tries again']) {
      const answer = await answerOf(code.resume(id))
      answers.push(answer)
      say(`${who}: "${answer}".`, mark(answer === 'resumed'))
    }
    const { status: row, checkpoint_ref } = await code.row(id)
    const hasCheckpoint = await machine.hasCheckpoint(checkpoint_ref)
    const processes = await machine.processesOf(ref)
    return verdict(
      row === 'suspended' && !hasCheckpoint && processes === 0 && !answers.includes('resumed'),
      { row, hasCheckpoint, processes, answers },
      `Lost, and nobody knows: the row says ${row}; the checkpoint that it names is not there. Processes: ${processes}.`,
    )
  },

  async sandman({ fleet, backend, machine, say }) {
    const { sandbox } = await fleet.spawn({ backend, agent: COUNTING, ...WAIT })
    const { id, providerRef } = sandbox
    await machine.hasCountedTo(5, providerRef)
    await fleet.pause(id, WAIT)
    await fleet.resume(id, WAIT)
    say(`Paused and resumed once: ${id}. Its agent counts in memory.`)
    await machine.setFault('loses uploads')
    const { operation } = await fleet.pause(id, WAIT)
    const counted = await machine.countOf(providerRef)
    say('Paused again. The provider says "checkpoint received", and loses it.', 'fault')
    const pause = outcomeOf(operation)
    say(
      `The checkpoint was looked for before anything was settled. Pause ${operation.status}: ${pause}.`,
      mark(pause === 'checkpoint_missing'),
    )
    const { state } = await fleet.get(id)
    say(`What still was there was woken again. The row: ${state}.`, mark(state === 'running'))
    const freed = await machine.freeWhatSleeps()
    say(`The provider frees the memory of what sleeps. Sandboxes that do: ${freed}.`, 'fault')
    const back = await fleet.resume(id, WAIT)
    const goesOn = await machine.counts(providerRef)
    say(`Its user comes back: ${outcomeOf(back.operation)}. It counts on: ${goesOn ? 'yes' : 'no'}.`, mark(goesOn))
    const { items } = await fleet.events(id)
    const facts = {
      row: back.sandbox.state,
      history: items.at(-1)?.to ?? null,
      pause,
      processes: await machine.processesOf(providerRef),
      countedAtThePause: counted,
      countedNow: await machine.countOf(providerRef),
    }
    const held =
      facts.row === 'running' && facts.history === 'running' && pause === 'checkpoint_missing' && freed === 0 && goesOn
    return verdict(
      held,
      facts,
      `Nothing lost: the row and its history say running, and it has counted on from ${facts.countedAtThePause} to ${facts.countedNow}. Processes: ${facts.processes}.`,
    )
  },
}
