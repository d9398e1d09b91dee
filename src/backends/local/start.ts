import { spawn } from 'node:child_process'
import { open, readFile } from 'node:fs/promises'
import path from 'node:path'
import { BackendError, type Call } from '../backend.ts'
import { wait } from './calls.ts'
import { writeJson } from './files.ts'
import { bootId, findSupervisor, type Instance, readStarted } from './instance.ts'
import { CLEAN_ENVIRONMENT } from './launch.ts'

const POLL_MS = 10
const REPORT_CHARS_MAX = 2_000

/**
 * Sees to it that the instance has had a supervisor that was ready. One that is there already, or is starting, is waited for;
 * one that died before it was ready is replaced; one that died later is not, because the agent died with it.
 */
export async function ensureStarted(instance: Instance, call: Call): Promise<void> {
  if (await readStarted(instance)) return
  const boot = await bootId()
  if (instance.labels.boot !== boot) {
    instance.labels.boot = boot
    await writeJson(path.join(instance.folder, 'instance.json'), instance.labels)
  }
  const hasExited = await startSupervisor(instance)
  for (;;) {
    const isGone = hasExited() && !(await findSupervisor(instance))
    if (await readStarted(instance)) return
    if (isGone) throw new BackendError('sandbox_unreachable', await describeDeath(instance))
    await wait(POLL_MS, call)
  }
}

async function startSupervisor({ folder }: Instance): Promise<() => boolean> {
  const log = await open(path.join(folder, 'supervisor.log'), 'a', 0o600)
  try {
    const program = path.join(import.meta.dirname, `supervisor${path.extname(import.meta.filename)}`)
    const child = spawn(process.execPath, [program, folder], {
      cwd: '/',
      // From sources, taking off the types costs a process 12 MB for as long as it lives, unless it was done before.
      env: { ...CLEAN_ENVIRONMENT, NODE_COMPILE_CACHE: path.join(folder, '../../cache') },
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
    })
    let hasExited = false
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve)
      child.once('error', reject)
      child.once('exit', () => {
        hasExited = true
      })
    })
    child.unref()
    return () => hasExited
  } finally {
    await log.close()
  }
}

async function describeDeath({ ref, folder }: Instance): Promise<string> {
  const report = await readFile(path.join(folder, 'supervisor.log'), 'utf8').catch(() => '')
  return `The supervisor of ${ref} ended before it was ready. ${report.slice(-REPORT_CHARS_MAX)}`.trim()
}
