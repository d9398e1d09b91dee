// Printed from docs/writing-a-backend.md.
import { openBoxesBackend } from '../../../examples/boxes/backend.ts'
declare const databaseUrl: string
declare const url: string
import { createWorker } from 'sandman'

await createWorker({ databaseUrl, fleet: 'boxes', backends: [openBoxesBackend({ url, fleet: 'boxes' })] })
