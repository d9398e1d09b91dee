import { mkdir, symlink } from 'node:fs/promises'
import path from 'node:path'

/**
 * Supervisors keep what they have compiled beside their instances. A test has a folder of its own, and would compile everything
 * anew: it shares the cache with all the others.
 */
export async function shareCompiled(folder: string, fleet: string): Promise<void> {
  await mkdir(path.join(folder, fleet), { recursive: true })
  await symlink(process.env.NODE_COMPILE_CACHE as string, path.join(folder, fleet, 'cache'))
}
