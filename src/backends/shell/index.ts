/** Agents for whoever writes a backend whose provider can run a script, and no more: see docs/writing-a-backend.md. */
export { attach } from './attach.ts'
export { runCommand } from './commands.ts'
export { partOf } from './parts.ts'
export type { Inside, Shell } from './shell.ts'
export { startAgent } from './start.ts'
export { agentStatus } from './status.ts'
export { endFormer, endLingering, stopAgent } from './stop.ts'
