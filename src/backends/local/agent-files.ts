import { mkdir, readdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { ProcessIdentity } from '../../process-identity.ts'
import { isFolderName } from '../folder-name.ts'
import { partOf } from '../shell/parts.ts'
import { exists, isMissing, readJson } from './files.ts'

/**
 * The files of an agent, which are together in a folder: its output, its end, and, of one that was started by key, what was
 * asked for and what became of that. No key means the agent that the instance was made with.
 */
export type AgentKey = string | undefined

/** Written by who asks, together with the folder: there is never one without the other. */
export type AgentWanted = { command: readonly string[] }

/**
 * Written by the supervisor, once. Without a process where none could be started. With a cgroup of its own, all that it starts
 * is in there.
 */
export type AgentStarted = { process?: ProcessIdentity | undefined; hasCgroup?: boolean }

/** Written by the supervisor. */
export type AgentEnd = { exitCode: number | null; signal: string | null; oomKilled?: boolean }

export const WANTED = 'wanted.json'
const OUTPUT = 'output.log'

export const agentsFolder = (folder: string) => path.join(folder, 'agents')
export const agentFolder = (folder: string, key: AgentKey) => path.join(agentsFolder(folder), partOf(key))
export const wantedFile = (folder: string, key: string) => path.join(agentFolder(folder, key), WANTED)
export const agentStartedFile = (folder: string, key: string) => path.join(agentFolder(folder, key), 'started.json')
export const outputFile = (folder: string, key: AgentKey) => path.join(agentFolder(folder, key), OUTPUT)
export const agentEndFile = (folder: string, key: AgentKey) => path.join(agentFolder(folder, key), 'end.json')

/** Of the agents that were started by key, or are about to be, in any incarnation. */
export async function listKeys(folder: string): Promise<string[]> {
  const names = await readdir(agentsFolder(folder)).catch((error) => {
    if (isMissing(error)) return [] // it is being removed
    throw error
  })
  return names.filter((name) => isFolderName(name) && name !== partOf(undefined))
}

/** With an empty output: where there is an agent, there is something to read. */
export async function makeAgentFolder(at: string): Promise<void> {
  await mkdir(at, { recursive: true, mode: 0o700 })
  await writeFile(path.join(at, OUTPUT), '', { mode: 0o600 })
}

export function hasAgent(folder: string, key: AgentKey): Promise<boolean> {
  return exists(agentFolder(folder, key))
}

export function readAgentStarted(folder: string, key: string): Promise<AgentStarted | undefined> {
  return readJson<AgentStarted>(agentStartedFile(folder, key))
}
