import { BackendError, type Call } from '../backend.ts'
import { within } from './calls.ts'
import { freezeCgroup, thawCgroup } from './cgroups.ts'
import type { Instance } from './instance.ts'
import { findMembers, kill, type Member } from './processes.ts'

const STOP_MS_MAX = 10_000

/**
 * Stops every process of a sandbox, and returns when all of them were seen to stand still: through the system's freezer where
 * we may use it, which they do not notice, and by signal otherwise.
 */
export async function freeze(instance: Instance, call: Call): Promise<void> {
  const { freezer } = instance.labels.cgroups
  if (freezer) await freezeCgroup(freezer, call)
  let before: string | undefined
  const standStill = await within(STOP_MS_MAX, call, async () => {
    const members = await findMembers(instance)
    const moving = members.filter(({ isInFreezer, isStopped }) => !isInFreezer && !isStopped)
    for (const { pid } of moving) kill(pid, 'SIGSTOP')
    const now = moving.every(({ isWaitingForStopped }) => isWaitingForStopped) ? pidsOf(members) : undefined
    // Twice the same: what one of them started before it was stopped may have been missed by the look that saw it stopped.
    const isStable = now !== undefined && now === before
    before = now
    return isStable
  })
  if (!standStill) throw new BackendError('sandbox_unreachable', `The processes of ${instance.ref} cannot be stopped`)
}

export async function thaw(instance: Instance): Promise<void> {
  // First, and to all: one that was stopped while it was on its way into the freezer is frozen with the stop still to come.
  for (const { pid } of await findMembers(instance)) kill(pid, 'SIGCONT')
  const { freezer } = instance.labels.cgroups
  if (freezer) await thawCgroup(freezer)
}

function pidsOf(members: Member[]): string {
  return members
    .map(({ pid }) => pid)
    .sort((a, b) => a - b)
    .join(' ')
}
