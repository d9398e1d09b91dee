import { BackendError, type Call } from '../backend.ts'
import {
  type Container,
  type HostConfig,
  inspectContainer,
  remove,
  rename,
  sleepOf,
  startLetters,
  stop,
  takeBack,
} from './containers.ts'
import { Refusal } from './errors.ts'
import { commit, findImage, type Image, untag } from './images.ts'
import { findInstance, type Instance, ownerOf } from './instance.ts'
import { IMAGE_LABEL, LABEL, type Labels } from './labels.ts'
import { asleepImage, trialImage, wordOf } from './names.ts'
import { raise } from './raise.ts'
import type { Site } from './site.ts'
import { Unsettled } from './targets.ts'

/** Asked to end, and killed if it has not ended by then. */
const GRACE_SECONDS = 10
/** Engines take 125 or 127 of them on top of each other, and every pause adds one. */
const LAYERS_MAX = 120

/** What is needed to make the containers again, besides what the image itself knows. */
type Recipe = {
  host: HostConfig
  hasAgent: boolean
  sidecar: { Entrypoint: string[]; Env: string[]; Image: string; host: HostConfig } | undefined
}

/**
 * Writes the files as an image, and removes the containers. The agent begins anew when it is woken.
 *
 * The image is written once while everything runs: if there is no room for it, nothing has happened yet. Then its name says that
 * it is about to sleep, it is stopped, and the image is written again, with what was done to the files at the end.
 * Killed half-way: it runs; or it has stopped, with all of its files, and whoever wakes it finishes this first; or there is the
 * image.
 */
export async function putAway(site: Site, instance: Instance & { agent: Container }, key: string, call: Call) {
  const { agent, sidecar, ref } = instance
  await requireWritable(site, instance, call)
  const begun = sleepOf(agent)
  // An earlier attempt may still be stopping it. So the name that it gave stays: under another it would have ended, and be lost.
  const { name, sleep } =
    begun?.mode === 'disk' ? { name: agent.fullName, sleep: begun } : await announce(site, instance, key, call)
  await stop(site, name, GRACE_SECONDS, call).catch(async (error: unknown) => {
    // The engine has said no, so it runs on, and if it then ended by itself, that would look like sleep. If there was no answer,
    // the next attempt finds out.
    if (error instanceof Refusal && error.isOwn) await takeBack(site, { ...agent, fullName: name }, call)
    throw error
  })
  if (sidecar?.State === 'running') await stop(site, sidecar.Id, GRACE_SECONDS, call)
  await finish(site, ref, call)
  return sleep.key
}

/** Sees that there is room for an image, and then says in its name that it is about to sleep. */
async function announce(site: Site, { agent, ref }: Instance & { agent: Container }, key: string, call: Call) {
  // While it is copied the engine shows it as paused, and a name of a pause that came to nothing would say that it sleeps.
  const fullName = await rename(site, agent, { ...agent.name, sleep: undefined }, call)
  const labels = { [IMAGE_LABEL.fleet]: site.home.fleet, [IMAGE_LABEL.ref]: ref, [IMAGE_LABEL.kind]: 'trial' }
  await commit(site, fullName, trialImage(site.home, ref), labels, call)
  const sleep = { mode: 'disk', key: wordOf(key), startedAt: startLetters(agent) } as const
  return { name: await rename(site, { fullName }, { ...agent.name, sleep }, call), sleep }
}

/** From a container that was stopped to sleep, to an image. */
async function finish(site: Site, ref: string, call: Call): Promise<void> {
  const instance = await findInstance(site, ref, call)
  const { agent, sidecar } = instance
  if (!agent?.name.sleep) return
  const labels = await labelsOf(site, { ...instance, agent }, agent.name.sleep.key, call)
  await commit(site, agent.fullName, asleepImage(site.home, ref), labels, call)
  await remove(site, agent.fullName, call)
  if (sidecar) await remove(site, sidecar.Id, call)
  await untag(site, trialImage(site.home, ref), call)
}

async function labelsOf(
  site: Site,
  instance: Instance & { agent: Container },
  key: string,
  call: Call,
): Promise<Labels> {
  const { agent, ref } = instance
  const { sandboxId, life } = ownerOf(instance)
  const beside = instance.sidecar && (await inspectContainer(site, instance.sidecar.Id, call))
  const recipe: Recipe = {
    host: agent.inspected.HostConfig,
    hasAgent: agent.labels[LABEL.agent] === 'own',
    sidecar: beside && {
      Entrypoint: beside.inspected.Config.Entrypoint ?? [],
      Env: beside.inspected.Config.Env ?? [],
      Image: beside.inspected.Image,
      host: beside.inspected.HostConfig,
    },
  }
  return {
    [IMAGE_LABEL.fleet]: site.home.fleet,
    [IMAGE_LABEL.sandbox]: sandboxId,
    [IMAGE_LABEL.life]: life,
    [IMAGE_LABEL.ref]: ref,
    [IMAGE_LABEL.kind]: 'disk',
    [IMAGE_LABEL.key]: key,
    [IMAGE_LABEL.recipe]: JSON.stringify(recipe),
  }
}

/** Makes its containers anew from the image that it sleeps as. The image loses its name then, and goes with the container. */
export async function takeOut(site: Site, { ref, agent }: Instance, call: Call): Promise<void> {
  if (agent?.state === 'exited') await finish(site, ref, call)
  const sleeping = await findInstance(site, ref, call)
  const { asleep } = sleeping
  // What a pause that was cut off has left: it shared the network of a container that is gone.
  if (asleep && !sleeping.agent && sleeping.sidecar) await remove(site, sleeping.sidecar.Id, call)
  if (!asleep) throw new Unsettled(ref, 'it is being put away, or somebody else has woken it')
  const recipe = recipeOf(asleep, ref)
  const beside = recipe.sidecar
  const hasOwnImage = beside !== undefined && (await findImage(site, beside.Image, call)) !== undefined
  await raise(
    site,
    {
      ref,
      owner: ownerOf(sleeping),
      hasAgent: recipe.hasAgent,
      image: asleep.id,
      async bringImage() {
        throw new BackendError('checkpoint_missing', `The image that ${ref} sleeps as has vanished`)
      },
      agent: { HostConfig: recipe.host },
      sidecar:
        beside &&
        (({ id }) => ({
          Entrypoint: beside.Entrypoint,
          Cmd: [],
          Env: beside.Env,
          Image: hasOwnImage ? beside.Image : asleep.id,
          HostConfig: { ...beside.host, NetworkMode: `container:${id}` },
        })),
    },
    call,
  )
  await untag(site, asleepImage(site.home, ref), call)
}

function recipeOf({ labels }: Image, ref: string): Recipe {
  try {
    return JSON.parse(labels[IMAGE_LABEL.recipe] ?? '') as Recipe
  } catch (cause) {
    const message = `The image that ${ref} sleeps as does not say how its containers are made`
    throw new BackendError('checkpoint_corrupt', message, { cause })
  }
}

/** Fails while it still runs, rather than losing something of it. */
async function requireWritable(site: Site, { ref, agent, isAdopted }: Instance & { agent: Container }, call: Call) {
  const { Mounts = [], Image: image } = agent.inspected
  const volume = Mounts.find(({ Type }) => Type !== 'tmpfs')
  if (isAdopted)
    throw new BackendError(
      'spec_invalid',
      `${ref} was made by somebody else, and cannot be made again: pause it by freezing.`,
    )
  if (volume)
    throw new BackendError(
      'spec_invalid',
      `${ref} has a volume at ${volume.Destination}, which no image holds: pause it by freezing.`,
    )
  const { layers = 0 } = (await findImage(site, image, call)) ?? {}
  if (layers >= LAYERS_MAX)
    throw new BackendError(
      'quota_exceeded',
      `${ref} consists of ${layers} layers, one for every pause, and the engine takes few more: respawn it.`,
    )
}
