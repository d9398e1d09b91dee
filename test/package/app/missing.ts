import { createWorker } from 'sandman'

for (const backend of ['docker', 'kubernetes-pod', 'agent-sandbox', 'agentuity'] as const) {
  const databaseUrl = String(process.env.DATABASE_URL)
  await createWorker({ databaseUrl, backends: [backend] }).catch((error: Error) => console.log(error.message))
}
