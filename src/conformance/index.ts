/** What proves a backend, for whoever writes one: see docs/writing-a-backend.md. */

export { conformance } from './conformance.ts'
export type { Case, Claims, Subject, Wired } from './subject.ts'
export { startWire, type Wire, type WireFault } from './wire.ts'
