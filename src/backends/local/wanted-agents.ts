import { type AgentWanted, agentStartedFile, listKeys, wantedFile } from './agent-files.ts'
import { exists, readJson } from './files.ts'
import type { Instance } from './instance.ts'
import { runAgent, writeInTheEnd } from './run-agent.ts'

/**
 * What the supervisor does for agents that are started by key: it looks for what is wanted, and starts it. Each is started once,
 * because the supervisor is the only one that starts any, and begins with each once: an instance has only one that was ready.
 */
export function startWanted(instance: Instance): () => Promise<void> {
  const begun = new Set<string>()
  let isLooking = false
  let isAskedAgain = false

  return async () => {
    isAskedAgain = true
    if (isLooking) return
    isLooking = true
    try {
      while (isAskedAgain) {
        isAskedAgain = false
        for (const key of (await listKeys(instance.folder)).filter((each) => !begun.has(each))) {
          begun.add(key)
          // What could not even be tried (no room for its output, for instance) is tried at the next look.
          startOne(instance, key).catch(() => begun.delete(key))
        }
      }
    } catch {
      // Who cannot look now (too many open files, for instance) looks again later.
    } finally {
      isLooking = false
    }
  }
}

async function startOne(instance: Instance, key: string): Promise<void> {
  const { folder, labels } = instance
  const wanted = await readJson<AgentWanted>(wantedFile(folder, key))
  const file = agentStartedFile(folder, key)
  if (!wanted || (await exists(file))) return
  const started = await runAgent(instance, key, { command: wanted.command, env: labels.spec.agent?.env })
  await writeInTheEnd(folder, file, started)
}
