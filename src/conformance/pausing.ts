import { setTimeout as sleep } from 'node:timers/promises'
import type { Agent } from '../backends/backend.ts'
import { fails, givenUp, holds, is, isNot } from './assertions.ts'
import { type Awake, type Bench, call, IDLING, newId, pausingOf, settled, sh, until } from './bench.ts'
import type { Case } from './subject.ts'
import type { Suite } from './suite.ts'

/** How many seconds have to be missing for it to say so. */
const STOOD_STILL_S = 2

/** Says which process it is and counts, and says when it was not there for some time. */
const WATCHING = sh(`i=0; last=$(date +%s)
while :; do
  now=$(date +%s); if [ $((now - last)) -ge ${STOOD_STILL_S} ]; then echo stood still; fi; last=$now
  i=$((i+1)); echo tick $$ $i; sleep 0.05
done`)

/** Sleep: what is paused can be resumed, and is what it was. */
export function pausingCases(suite: Suite): Case[] {
  const { claims } = suite.subject
  if (claims.pausing === 'none') return []
  const cases = suite.lent('pausing', {
    async 'One that is suspended sleeps, with a checkpoint that was seen to be whole (incident F)'(bench, target) {
      const checkpointRef = await bench.suspend(target)
      is('look after suspend', await bench.look(target.ref), { is: 'suspended', checkpointRef })
      const seen = await (await bench.another()).look(target.ref, call())
      is('look after suspend, by another worker,', seen, { is: 'suspended', checkpointRef })
    },

    async 'One that sleeps already was suspended, and keeps its checkpoint (incident H)'(bench, target) {
      const checkpointRef = await bench.suspend(target)
      is('the checkpoint after suspend of what sleeps', await bench.suspend(target), checkpointRef)
      const again = await bench.suspend({ ...target, incarnation: 'another' })
      is('the checkpoint after suspend of what sleeps, meant for another incarnation,', again, checkpointRef)
    },

    async 'Its checkpoint is listed while it has one of its own'(bench, target) {
      if (bench.pausing.consumesCheckpoint) return
      const { sandboxId } = target
      const ref = await bench.suspend(target)
      is('the list of checkpoints after suspend', await bench.checkpoints(), [{ ref, sandboxId, kind: 'pause' }])
      const others = await bench.checkpoints(await bench.another(`${bench.fleet}-b`))
      is('the list of checkpoints of another fleet', others, [])
    },

    async 'Several who resume it at once have woken it once'(bench, target) {
      const checkpointRef = await bench.suspend(target)
      const asked = { key: newId('op'), ttlMs: 600_000 }
      const workers = [bench.pausing, bench.pausing, (await bench.another()).pausing]
      const waking = workers.map(
        (each) => each !== 'none' && each.resume({ ref: target.ref, checkpointRef }, asked, call()),
      )
      const outcomes = await Promise.allSettled(waking)
      for (const outcome of outcomes)
        if (outcome.status === 'rejected')
          await fails('resume beside another resume', 'sandbox_unreachable', Promise.reject(outcome.reason))
      const awake = await bench.resume(target.ref, checkpointRef, asked.key)
      isNot('the incarnation after resume', awake.incarnation, target.incarnation)
      await bench.run(awake, 'true')
    },

    async 'Several who suspend it at once have put it to sleep once'(bench, target) {
      const key = newId('op')
      const workers = [bench.pausing, bench.pausing, (await bench.another()).pausing]
      await Promise.all(workers.map((each) => each !== 'none' && each.suspend(target, { key }, call())))
      const checkpointRef = await bench.suspend(target, key)
      is('verify after several suspends', (await settled(bench.pausing, checkpointRef)).is, 'ready')
      await bench.resume(target.ref, checkpointRef)
    },

    async 'One that is resumed runs as a new incarnation, with its files'(bench, target) {
      await bench.run(target, 'echo kept > kept')
      const awake = await bench.resume(target.ref, await bench.suspend(target))
      isNot('the incarnation after resume', awake.incarnation, target.incarnation)
      is('a file after resume', await bench.run(awake, 'cat kept'), 'kept\n')
    },

    async 'One that is awake already was resumed, and stays the incarnation that it is'(bench, target) {
      const checkpointRef = await bench.suspend(target)
      const key = newId('op')
      const awake = await bench.resume(target.ref, checkpointRef, key)
      const again = await bench.resume(target.ref, checkpointRef, key)
      is('what resume of one that is awake leaves, with the same key,', again, awake)
      const later = await bench.resume(target.ref, checkpointRef)
      is('what resume of one that is awake leaves, with another key,', later, awake)
    },

    async 'Each of its pauses has a checkpoint of its own, and each of its incarnations is another (incident A)'(
      bench,
      lent,
    ) {
      let target: Awake = lent
      const incarnations = [target.incarnation]
      const checkpoints: string[] = []
      for (let nth = 1; nth <= 3; nth++) {
        await bench.run(target, `echo ${nth} >> pauses`)
        const checkpointRef = await bench.suspend(target)
        checkpoints.push(checkpointRef)
        target = await bench.resume(target.ref, checkpointRef)
        incarnations.push(target.incarnation)
        if (!bench.pausing.consumesCheckpoint) await bench.pausing.discard(checkpointRef, call())
      }
      is('a file after three pauses', await bench.run(target, 'cat pauses'), '1\n2\n3\n')
      is('what there are of incarnations, each once,', incarnations, [...new Set(incarnations)])
      is('what there are of checkpoints, each once,', checkpoints, [...new Set(checkpoints)])
    },

    async 'A late end that was meant for what was before the pause does not hit it (incident Q)'(bench, target) {
      const checkpointRef = await bench.suspend(target)
      await fails('end of what was before the pause, while it sleeps,', 'overtaken', bench.backend.end(target, call()))
      is('look after that', (await bench.look(target.ref)).is, 'suspended')
      const awake = await bench.resume(target.ref, checkpointRef)
      await fails('end of what was before the pause, after resume,', 'overtaken', bench.backend.end(target, call()))
      const asleep = { ref: target.ref, incarnation: null }
      await fails('end of what sleeps, after resume,', 'overtaken', bench.backend.end(asleep, call()))
      is('what runs after all of them', await bench.awake(target.ref), awake)
    },

    async 'One that sleeps is ended by who means a sleeping one, and cannot be resumed then'(bench, target) {
      const checkpointRef = await bench.suspend(target)
      await bench.backend.end({ ref: target.ref, incarnation: null }, call())
      is('look after end of what sleeps', await bench.look(target.ref), { is: 'absent' })
      const asked = { key: newId('op'), ttlMs: 600_000 }
      const types = ['sandbox_expired', 'checkpoint_missing'] as const
      await fails('resume after end', types, bench.pausing.resume({ ref: target.ref, checkpointRef }, asked, call()))
      is('look after resume of what has ended', await bench.look(target.ref), { is: 'absent' })
    },

    async 'A checkpoint that was discarded is no more, and neither is that of what has ended'(bench, target) {
      const checkpointRef = await bench.suspend(target)
      await bench.backend.end({ ref: target.ref, incarnation: null }, call())
      for (const _time of [1, 2]) await bench.pausing.discard(checkpointRef, call())
      is('verify after end and discard', (await settled(bench.pausing, checkpointRef)).is, 'missing')
    },

    async 'To discard a checkpoint never ends an instance'(bench, target) {
      const checkpointRef = await bench.suspend(target)
      const awake = await bench.resume(target.ref, checkpointRef)
      await bench.pausing.discard(checkpointRef, call())
      is('what runs after discard', await bench.awake(target.ref), awake)
      if (!bench.pausing.consumesCheckpoint) return
      const next = await bench.suspend(awake)
      await bench.pausing.discard(next, call())
      is('look at what sleeps, after discard,', (await bench.look(target.ref)).is, 'suspended')
    },

    async 'It is listed while it sleeps, and found by its owner'(bench, target) {
      await bench.suspend(target)
      const refs = (await bench.instances()).map(({ ref }) => ref)
      is('the list of instances while it sleeps', refs, [target.ref])
      is('find by its owner while it sleeps', await bench.find(target.sandboxId), [target.ref])
    },

    async 'A pause that is given up leaves it running or asleep, and nothing in between'(bench, target) {
      const reason = new Error('given up')
      const abort = new AbortController()
      const pausing = bench.pausing.suspend(target, { key: newId('op') }, { signal: abort.signal })
      setImmediate(() => abort.abort(reason))
      await pausing.catch((error: unknown) => givenUp('suspend', Promise.reject(error), reason))
      const checkpointRef = await bench.suspend(target)
      await bench.run(await bench.resume(target.ref, checkpointRef), 'true')
    },

    async 'It is resumed by another worker than the one that put it to sleep'(bench, target) {
      const checkpointRef = await bench.suspend(target)
      const pausing = pausingOf(await bench.another())
      await pausing.resume({ ref: target.ref, checkpointRef }, { key: newId('op'), ttlMs: 600_000 }, call())
      await bench.run(await bench.awake(target.ref), 'true')
    },
  })
  cases.push(
    ...suite.own('pausing', {
      async 'What its agents are while it sleeps is asleep'(bench) {
        const target = await bench.create({ agent: { command: IDLING } })
        const agent = await bench.start(target, IDLING)
        await bench.suspend(target)
        for (const key of [undefined, agent.key]) {
          const status = await bench.backend.agentStatus({ ...target, key }, call())
          is(`agentStatus of ${agentOf(key)} while it sleeps`, status, { is: 'asleep' })
        }
        await fails('stopAgent while it sleeps', 'overtaken', bench.backend.stopAgent(agent, call()))
      },
    }),
  )
  if (claims.pausing === 'memory')
    cases.push(
      ...suite.own('pausing', {
        async 'What ran in it stands still while it sleeps, and goes on in the same process'(bench) {
          const target = await bench.create({ agent: { command: WATCHING } })
          const { key } = await bench.start(target, WATCHING)
          const said = (heard: string) =>
            heard
              .split('\n')
              .slice(0, -1)
              .map((line) => line.split(' '))
          for (const each of [undefined, key])
            await hearUntil(bench, { ...target, key: each }, (heard) => said(heard).length > 2)
          const checkpointRef = await bench.suspend(target)
          await sleep(STOOD_STILL_S * 1_000 + 100)
          const awake = await bench.resume(target.ref, checkpointRef)
          for (const each of [undefined, key]) {
            const before = await bench.backend.agentStatus({ ...target, key: each }, call())
            is(`agentStatus after resume, of ${agentOf(each)} of the incarnation before,`, before.is, 'restarted')
            const now = { ...awake, key: each }
            const status = await bench.backend.agentStatus(now, call())
            is(`agentStatus after resume, of ${agentOf(each)},`, status, { is: 'running' })
            const heard = await hearUntil(bench, now, (text) => text.includes('stood still\n'))
            const ticks = said(heard).filter(([word]) => word === 'tick')
            const pids = [...new Set(ticks.map(([, pid]) => pid))]
            holds(
              `resume was expected to go on in the same process, and they were ${pids.join(', ')}`,
              pids.length === 1,
            )
            const first = each === undefined && claims.ownOutput ? Number(ticks[0]?.[2]) : 1
            is(
              `what ${agentOf(each)} has counted, before the pause and after it,`,
              ticks.map(([, , nth]) => Number(nth)),
              ticks.map((_tick, at) => at + first),
            )
          }
          const now = { ...awake, key }
          await bench.backend.stopAgent(now, call())
          is('agentStatus after stopAgent', (await bench.backend.agentStatus(now, call())).is, 'terminated')
        },

        async 'Who listens while it falls asleep is let go, and is told of no end'(bench) {
          const target = await bench.create()
          const agent = await bench.start(target, sh('echo one; exec sleep 1000'))
          const listening = async () => {
            for await (const { isLast } of bench.backend.attach(agent, undefined, call())) {
              isNot('isLast of the output of an agent that runs', isLast, true)
              await bench.suspend(target)
              wasSuspended = true
            }
          }
          let wasSuspended = false
          await listening().catch((error: unknown) => {
            if (!wasSuspended) throw error
            return fails('attach while it falls asleep', ['sandbox_unreachable', 'overtaken'], Promise.reject(error))
          })
          for await (const { isLast } of bench.backend.attach(agent, undefined, call()))
            isNot('isLast of the output of an agent that sleeps', isLast, true)
        },
      }),
    )
  else
    cases.push(
      ...suite.own('pausing', {
        async 'What ran in it has ended with the pause, and its own agent begins anew'(bench) {
          const target = await bench.create({ agent: { command: sh('echo begin >> begins; exec sleep 1000') } })
          const agent = await bench.start(target, IDLING)
          await until(
            'it has begun',
            async () => (await bench.run(target, 'cat begins 2>/dev/null || :')) !== '' || undefined,
          )
          const awake = await bench.resume(target.ref, await bench.suspend(target))
          const statusOf = (of: Agent) => bench.backend.agentStatus(of, call())
          const before = await statusOf({ ...target, key: undefined })
          is('agentStatus after resume, of the incarnation before,', before.is, 'restarted')
          const own = await statusOf({ ...awake, key: undefined })
          is("agentStatus after resume, of the sandbox's own agent,", own, { is: 'running' })
          const started = await statusOf({ ...awake, key: agent.key })
          is('agentStatus after resume, of one that was started in it before,', started, { is: 'none' })
          await until(
            'it begins again',
            async () => (await bench.run(awake, 'cat begins')) === 'begin\nbegin\n' || undefined,
          )
        },
      }),
    )
  return cases
}

const agentOf = (key: string | undefined) =>
  key === undefined ? "the sandbox's own agent" : 'one that was started in it'

async function hearUntil(bench: Bench, agent: Agent, isEnough: (heard: string) => boolean): Promise<string> {
  let heard = ''
  for await (const { bytes } of bench.backend.attach(agent, undefined, call())) {
    heard += Buffer.from(bytes)
    if (isEnough(heard)) break
  }
  return heard
}
