import { randomUUID } from 'node:crypto'
import { mkdir, rename } from 'node:fs/promises'
import path from 'node:path'
import { BackendError, type Call, type Wanted } from '../backend.ts'
import { hash } from '../hash.ts'
import { requireWithout } from '../require-without.ts'
import type { Spec } from '../spec.ts'
import { agentFolder, makeAgentFolder } from './agent-files.ts'
import { type Cgroups, makeCgroups, removeCgroups } from './cgroups.ts'
import { restoreWorkspace } from './checkpoints.ts'
import { removeTree, syncFolder, writeJson } from './files.ts'
import { type Home, leftoversOf, refOf } from './home.ts'
import { bootId, findInstance, type Labels, lifeFile } from './instance.ts'
import { ensureStarted } from './start.ts'

/**
 * Makes the folder with its labels, and then starts what runs in it.
 *
 * Killed half-way: there is no instance, or a labelled one without a supervisor, which the next attempt starts.
 */
export async function createInstance(home: Home, wanted: Wanted, options: { cgroups: boolean }, call: Call) {
  if (wanted.spec.template !== undefined) {
    const asked = JSON.stringify(wanted.spec.template)
    throw new BackendError('spec_invalid', `The local backend has no templates, so there is none called ${asked}`)
  }
  requireWithout(wanted, ['limits.cpusMax', 'readOnlyRoot'], (name) => `The local backend cannot keep to \`${name}\``)
  const ref = refOf(home, wanted)
  if (!(await findInstance(home, ref))) await makeFolder(home, ref, wanted, options, call)
  const instance = await findInstance(home, ref)
  if (instance) await ensureStarted(instance, call)
  return { ref }
}

async function cgroupsFor(mark: string, { limits }: Spec, options: { cgroups: boolean }): Promise<Cgroups> {
  const cgroups = options.cgroups ? await makeCgroups(`sandman-${mark}`, limits?.memoryBytesMax) : {}
  if (cgroups.memory !== undefined || limits?.memoryBytesMax === undefined) return cgroups
  await removeCgroups(cgroups)
  throw new BackendError(
    'spec_invalid',
    'This machine lets Sandman limit no memory (it may make no cgroup that does), so it cannot keep to `limits.memoryBytesMax`',
  )
}

async function makeFolder(home: Home, ref: string, wanted: Wanted, options: { cgroups: boolean }, call: Call) {
  const { sandboxId, life, spec, checkpointRef } = wanted
  for (const left of await leftoversOf(home.instances, `.making-${ref}`)) await removeTree(left)
  const draft = path.join(home.instances, `.making-${ref}~${randomUUID()}`)
  const folder = path.join(home.instances, ref)
  const mark = `${ref}.${hash(folder)}`
  try {
    const workspace = path.join(draft, 'workspace')
    await mkdir(workspace, { recursive: true, mode: 0o700 })
    await makeAgentFolder(agentFolder(draft, undefined))
    if (checkpointRef !== undefined) await restoreWorkspace(home, checkpointRef, workspace, call)
    const labels: Labels = {
      fleet: home.fleet,
      sandboxId,
      life,
      mark,
      cgroups: await cgroupsFor(mark, spec, options),
      spec: { ...(spec.agent && { agent: spec.agent }), ...(spec.limits && { limits: spec.limits }) },
      createdAt: Date.now(),
      boot: await bootId(),
    }
    await writeJson(path.join(draft, 'instance.json'), labels)
    await writeJson(lifeFile(draft), { is: 'awake', incarnation: life })
    await rename(draft, folder)
    await syncFolder(home.instances)
  } catch (error) {
    await removeTree(draft)
    throw error
  }
}
