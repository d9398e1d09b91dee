import type { Call, Sighting } from '../backend.ts'
import { type Container, sleepOf } from './containers.ts'
import type { Instance } from './instance.ts'
import { IMAGE_LABEL } from './labels.ts'
import { checkpointRefOf, type SleepMode } from './names.ts'
import { readInfo, type Site } from './site.ts'

/** What has not been started for this long, by the engine's own clock, was forgotten by whoever made it. */
const START_MS_MAX = 60_000

export async function lookAt(site: Site, instance: Instance, call: Call): Promise<Sighting> {
  const seen = sightingOf(instance)
  if (seen.is !== 'half-made') return seen
  const { SystemTime } = await readInfo(site.engine, call)
  const { why, since } = seen
  if (Date.parse(SystemTime) - since < START_MS_MAX) return { is: 'changing', why }
  return { is: 'lost', why: `${why}, and nobody has done that` }
}

type HalfMade = { is: 'half-made'; why: string; since: number }

function sightingOf(instance: Instance): Sighting | HalfMade {
  const { ref, agent, sidecar, asleep } = instance
  const sleeping = sleepingOf(instance)
  if (sleeping)
    return { is: 'suspended', checkpointRef: checkpointRefOf({ ref, kind: sleeping.mode, key: sleeping.key }) }
  if (!agent) {
    if (sidecar) return { is: 'lost', why: `the agent's container of ${ref} is gone, and only its sidecar is left` }
    return asleep
      ? { is: 'lost', why: `of ${ref} there is only an image that nothing can be made of` }
      : { is: 'absent' }
  }
  const { state, incarnation, inspected } = agent
  switch (state) {
    case 'running':
      return { is: 'running', incarnation }
    case 'created':
      if (inspected.State.Error) return { is: 'lost', why: `${ref} could not be started: ${inspected.State.Error}` }
      return { is: 'half-made', why: 'it is to be started', since: Date.parse(inspected.Created) }
    case 'paused':
      return { is: 'changing', why: 'it is being copied, or somebody else has paused it', incarnation }
    case 'restarting':
      return { is: 'changing', why: 'the engine starts it again', incarnation }
    case 'removing':
      return { is: 'changing', why: 'the engine removes it' }
    default:
      return {
        is: 'lost',
        why: `${whyEnded(agent)}${sidecar?.State === 'running' ? ', but its sidecar still runs' : ''}`,
      }
  }
}

/** The pause that a sandbox sleeps by, whichever way that was; undefined when it does not. */
export function sleepingOf({ agent, asleep }: Instance): { mode: SleepMode; key: string } | undefined {
  // While there is an image, and not all that is made of it has been started, whoever wakes it is not done.
  if (asleep || !agent) {
    const key = asleep?.labels[IMAGE_LABEL.key]
    return key === undefined ? undefined : { mode: 'disk', key }
  }
  const sleep = sleepOf(agent)
  const isAsleep =
    agent.state === 'paused' ? sleep?.mode === 'freeze' : agent.state === 'exited' && sleep?.mode !== 'freeze'
  return isAsleep ? sleep : undefined
}

function whyEnded({ name, inspected }: Container): string {
  const { ExitCode, OOMKilled, Error: error } = inspected.State
  const how = `the agent's container of ${name.base} has ended with exit code ${ExitCode}`
  const why = name.sleep?.mode === 'freeze' ? ', and what was frozen in it is gone' : ''
  return `${how}${OOMKilled ? ', and something in it was killed for its memory' : ''}${error ? ` (${error})` : ''}${why}`
}
