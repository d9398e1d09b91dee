import { BackendError, type Call, type Wanted } from '../backend.ts'
import { findImage } from './images.ts'
import { findInstance } from './instance.ts'
import { IMAGE_LABEL } from './labels.ts'
import { asleepImage, isOurs, parseCheckpointRef, refOf, snapshotImage } from './names.ts'
import { pull } from './pull.ts'
import { raise } from './raise.ts'
import { agentConfig, type Options, sidecarConfig } from './recipe.ts'
import { readInfo, type Site } from './site.ts'

export async function createInstance(
  site: Site,
  wanted: Wanted,
  options: Options,
  call: Call,
): Promise<{ ref: string }> {
  const { spec, sandboxId, life } = wanted
  const ref = refOf(site.home, wanted)
  const { agent, asleep } = await findInstance(site, ref, call)
  if (!agent && asleep) return { ref } // it was made, and sleeps
  const { Plugins } = await readInfo(site.engine, call)
  const image = agent ? agent.inspected.Image : await imageFor(site, wanted, call)
  await raise(
    site,
    {
      ref,
      owner: { sandboxId, life },
      hasAgent: spec.agent !== undefined,
      image,
      bringImage: () => pull(site, image, call),
      agent: agentConfig(spec, { ...options, logs: Plugins?.Log ?? [] }),
      sidecar: sidecarConfig(spec, options),
    },
    call,
  )
  return { ref }
}

/** By its name, or, of a checkpoint, by its id: that stays what it is. */
async function imageFor(site: Site, { spec, checkpointRef }: Wanted, call: Call): Promise<string> {
  if (checkpointRef !== undefined) return originOf(site, checkpointRef, call)
  if (spec.template !== undefined) return spec.template
  throw new BackendError(
    'spec_invalid',
    'A sandbox of the Docker backend is made from an image: name one as `template`, or begin `from` a checkpoint.',
  )
}

async function originOf(site: Site, checkpointRef: string, call: Call): Promise<string> {
  const name = parseCheckpointRef(checkpointRef)
  if (name?.kind === 'freeze' || name?.kind === 'checkpoint')
    throw new BackendError(
      'spec_invalid',
      `${checkpointRef} is what a sandbox has in memory, and no files that another could begin as: take a snapshot.`,
    )
  if (name) isOurs(site.home, name.ref)
  const image = name && (name.kind === 'snapshot' ? snapshotImage(site.home, name) : asleepImage(site.home, name.ref))
  const found = image && (await findImage(site, image, call))
  const isMeant = found && found.labels[IMAGE_LABEL.key] === name?.key && found.labels[IMAGE_LABEL.ref] === name?.ref
  if (isMeant) return found.id
  throw new BackendError('checkpoint_missing', `The Docker engine has no checkpoint ${checkpointRef}`)
}
