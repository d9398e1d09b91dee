import path from 'node:path'

export type Mount = { mountPath: string; folder: string }

/** Where processes of a container are started, and with what, in the terms of this machine. */
export type Inside = { cwd: string; env: Record<string, string> & { HOME: string } }

/**
 * There is no file system of its own in here, so what is said of a path inside is meant for the folder that plays it: for what is
 * mounted, the one behind the mount; for the rest, one in the container's own folder.
 */
export function layOut(
  asked: { env: Record<string, string>; workingDir: string | undefined; mounts: Mount[] },
  own: string,
): Inside {
  const within = (name: string) => behindMount(name, asked.mounts) ?? path.join(own, name)
  const { HOME, ...rest } = asked.env
  const env = Object.entries(rest).map(([name, value]) => [name, behindMount(value, asked.mounts) ?? value])
  return {
    cwd: asked.workingDir === undefined ? own : within(asked.workingDir),
    env: {
      ...(process.env.PATH !== undefined && { PATH: process.env.PATH }),
      HOME: HOME === undefined ? own : within(HOME),
      ...Object.fromEntries(env),
    },
  }
}

/** By the longest of the mounts that fit. */
function behindMount(name: string, mounts: Mount[]): string | undefined {
  const roots = mounts.map(({ mountPath, folder }) => ({ root: mountPath.replace(/\/+$/, ''), folder }))
  const fitting = roots.filter(({ root }) => name === root || name.startsWith(`${root}/`))
  const [nearest] = fitting.toSorted((a, b) => b.root.length - a.root.length)
  return nearest && nearest.folder + name.slice(nearest.root.length)
}
