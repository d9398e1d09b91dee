/** What apps import. */
export {
  type AgentStatus,
  abilitiesOf,
  type Backend,
  type BackendAbilities,
  BackendError,
  type BackendErrorType,
} from './backends/backend.ts'
export { ERRORS, type ErrorCode, isSandmanError, SandmanError } from './errors.ts'
export { createWorker, type WorkerOptions } from './fleet/create-worker.ts'
export { type Answer, createFleet, type Fleet, type FleetOptions } from './fleet/fleet.ts'
export type { Checkpoint, Operation, OperationError, Page, Sandbox, SandboxEvent } from './fleet/views.ts'
export { PATIENCE, type Patience } from './jobs/patience.ts'
export { FAILURES, type FailureType } from './sandbox/failures.ts'
