/** What apps import. */
export {
  type Agent,
  type AgentStatus,
  abilitiesOf,
  type Backend,
  type BackendAbilities,
  BackendError,
  type BackendErrorType,
  type Piece,
} from './backends/backend.ts'
export { ERRORS, type ErrorCode, isSandmanError, SandmanError } from './errors.ts'
export { createWorker, type WorkerOptions } from './fleet/create-worker.ts'
export { type Answer, createFleet, type ExecutionAnswer, type Fleet, type FleetOptions } from './fleet/fleet.ts'
export type { OutputPiece } from './fleet/output.ts'
export type { Finding, Overdue, Sweep, SweepReport } from './fleet/sweep.ts'
export type { Checkpoint, Execution, Operation, OperationError, Page, Sandbox, SandboxEvent } from './fleet/views.ts'
export type { Why } from './fleet/why.ts'
export { HOUSEKEEPING, type Housekeeping } from './jobs/housekeeping.ts'
export { PATIENCE, type Patience } from './jobs/patience.ts'
export { EXECUTION_REASONS, type ExecutionReason } from './sandbox/executions.ts'
export { FAILURES, type FailureType } from './sandbox/failures.ts'
