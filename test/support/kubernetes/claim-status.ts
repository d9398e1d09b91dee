import { type Condition, conditionOf, conditionsOf, type Json, type KubeObject, withCondition } from './objects.ts'

/** What keeps a claim from having a sandbox. */
export class Trouble extends Error {
  readonly reason: string

  constructor(reason: string, message: string) {
    super(message)
    this.reason = reason
  }
}

/** What its sandbox says, it says too. */
export function claimStatus(
  claim: KubeObject,
  sandbox: KubeObject | undefined,
  trouble: Trouble | undefined,
  nowMs: number,
): Json {
  const observedGeneration = claim.metadata.generation ?? 1
  const finished = sandbox && conditionOf(sandbox, 'Finished')
  const kept = conditionsOf(claim).filter(({ type }) => type !== 'Finished' || finished)
  const set = [{ ...readiness(sandbox, trouble), observedGeneration }, ...(finished ? [finished] : [])]
  const podIPs = sandbox?.status?.podIPs
  const known = sandbox ? { name: sandbox.metadata.name, ...(podIPs !== undefined && { podIPs }) } : {}
  return {
    conditions: set.reduce((all, next) => withCondition(all, next, nowMs), kept),
    sandbox: sandbox || !trouble ? known : (claim.status?.sandbox ?? {}),
  }
}

export function expiredClaimStatus(claim: KubeObject, nowMs: number): Json {
  const condition: Condition = {
    type: 'Ready',
    status: 'False',
    reason: 'ClaimExpired',
    message: 'Claim expired. Sandbox cleanup initiated.',
    observedGeneration: claim.metadata.generation ?? 1,
  }
  return { ...claim.status, conditions: withCondition(conditionsOf(claim), condition, nowMs) }
}

export const isMarkedExpired = (claim: KubeObject) => conditionOf(claim, 'Ready')?.reason === 'ClaimExpired'

function readiness(sandbox: KubeObject | undefined, trouble: Trouble | undefined): Condition {
  const no = (reason: string, message: string): Condition => ({ type: 'Ready', status: 'False', reason, message })
  if (trouble) return no(trouble.reason, trouble.message)
  if (!sandbox) return no('SandboxMissing', 'Sandbox does not exist')
  const told = conditionOf(sandbox, 'Ready')
  if (told?.reason === 'SandboxExpired')
    return no('SandboxExpired', 'Underlying Sandbox resource has expired independently of the Claim.')
  return told ?? no('SandboxNotReady', 'Sandbox is not ready')
}
