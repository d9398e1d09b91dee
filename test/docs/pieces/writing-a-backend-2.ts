// Printed from docs/writing-a-backend.md.
import { agentStatus, attach, endLingering, partOf, runCommand, startAgent, stopAgent, type Inside, type Shell } from 'sandman/shell'
export { agentStatus, attach, endLingering, partOf, runCommand, startAgent, stopAgent, type Inside, type Shell }
