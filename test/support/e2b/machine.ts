import { machinesMarkedBy } from '../machine.ts'

/** A sandbox has it in its environment at E2B, too. */
export const MARK = 'E2B_SANDBOX_ID'

export const { findProcesses, freeze, thaw, killAll } = machinesMarkedBy(MARK)
