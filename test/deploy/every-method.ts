import { expect } from 'vitest'
import type { Agent, Backend, Call, Listing, Target } from '../../src/backends/backend.ts'
import type { Spec } from '../../src/backends/spec.ts'

/** What a backend is asked for in the course of a sandbox's life, and which of its methods that were. */
export type Life = { called: Set<string>; methods: Set<string> }

const call = (): Call => ({ signal: AbortSignal.timeout(30_000) })

/**
 * Calls every method that a backend has, each as a worker does: for its own sake, and so that all that is asked of the provider is seen.
 * The spec has an agent that says something and stays. `adopted` names what somebody else has made at the provider.
 */
export async function liveThrough(opened: Backend, { spec, adopted }: { spec: Spec; adopted: string }): Promise<Life> {
  const called = new Set<string>()
  const backend = noting(opened, called)
  const owner = { sandboxId: 'sbx_1', life: 'op_1' }
  const { ref } = await backend.create({ ...owner, spec, checkpointRef: undefined, ttlMs: 3_600_000 }, call())
  await backend.create({ ...owner, spec, checkpointRef: undefined, ttlMs: 3_600_000 }, call())
  expect(await backend.find(owner.sandboxId, call())).toEqual([{ ref, life: owner.life }])
  expect(await listed(backend.lists.instances)).toEqual([ref])
  expect(await backend.lists.place(call())).toBeDefined()
  if (backend.lists.checkpoints !== 'none') expect(await listed(backend.lists.checkpoints)).toEqual([])

  let target = await awake(backend, ref)
  await useAgents(backend, target)
  await backend.previewUrl(ref, 8080, call())
  if (backend.lease !== 'none') await backend.lease.set(target, 3_600_000, call())

  if (backend.snapshots !== 'none') {
    const { checkpointRef } = await backend.snapshots.take(target, { key: 'op_2', name: undefined }, call())
    await ready(() => (backend.snapshots as Exclude<Backend['snapshots'], 'none'>).verify(checkpointRef, call()))
    const copy = { sandboxId: 'sbx_2', life: 'op_3', spec, checkpointRef, ttlMs: 3_600_000 }
    const made = await backend.create(copy, call())
    await backend.end(await awake(backend, made.ref), call())
    await backend.snapshots.discard(checkpointRef, call())
  }
  if (backend.pausing !== 'none') {
    const { pausing } = backend
    const { checkpointRef } = await pausing.suspend(target, { key: 'op_4' }, call())
    await expect.poll(async () => (await backend.look(ref, call())).is).toBe('suspended')
    const seen = await backend.look(ref, call())
    const slept = checkpointRef ?? (seen.is === 'suspended' ? seen.checkpointRef : undefined)
    await ready(() => pausing.verify(String(slept), call()))
    pausing.precedes?.(String(slept), target.incarnation)
    await pausing.resume({ ref, checkpointRef: slept }, { key: 'op_5', ttlMs: 3_600_000 }, call())
    target = await awake(backend, ref)
    await pausing.discard(String(slept), call())
  }

  await backend.adopt(adopted, { sandboxId: 'sbx_3', life: 'op_6' }, call())
  await backend.end(await awake(backend, adopted), call())
  await backend.end(target, call())
  expect(await backend.look(ref, call())).toEqual({ is: 'absent' })
  const methods = new Set(methodsOf(opened))
  await backend.close()
  return { called, methods }
}

/** All pages of it: some of a list may come from elsewhere than its beginning. */
async function listed(list: (cursor: string | undefined, call: Call) => Promise<Listing<{ ref: string }>>) {
  const refs: string[] = []
  for (let cursor: string | undefined, pages = 0; pages === 0 || cursor !== undefined; pages++) {
    const page = await list(cursor, call())
    refs.push(...page.items.map(({ ref }) => ref))
    cursor = page.next
  }
  return refs
}

async function useAgents(backend: Backend, target: Target & { incarnation: string }): Promise<void> {
  expect(await backend.run(target, 'echo here', call())).toMatchObject({ exitCode: 0, output: 'here\n' })
  await backend.startAgent(target, { key: 'exe_1', command: ['sh', '-c', 'echo one; exec sleep 100'] }, call())
  const agents: Agent[] = [
    { ...target, key: 'exe_1' },
    { ...target, key: undefined },
  ]
  for (const agent of agents) {
    await expect.poll(async () => (await backend.agentStatus(agent, call())).is).toBe('running')
    const asked = new AbortController()
    for await (const { bytes } of backend.attach(agent, undefined, asked)) if (bytes.length > 0) break
    asked.abort()
  }
  await backend.stopAgent({ ...target, key: 'exe_1' }, call())
  await backend.endLingering(target, call())
}

async function awake(backend: Backend, ref: string): Promise<Target & { incarnation: string }> {
  await expect.poll(async () => (await backend.look(ref, call())).is).toBe('running')
  const seen = await backend.look(ref, call())
  if (seen.is !== 'running') throw new Error(`${ref} is ${seen.is}`)
  return { ref, incarnation: seen.incarnation }
}

async function ready(verify: () => Promise<{ is: string }>): Promise<void> {
  await expect.poll(async () => (await verify()).is).toBe('ready')
}

/** Of the contract's parts, too, as `lists.place`. */
function methodsOf(part: object, prefix = ''): string[] {
  return Object.entries(part).flatMap(([name, value]: [string, unknown]) =>
    typeof value === 'function'
      ? [prefix + name]
      : typeof value === 'object' && value !== null
        ? methodsOf(value, `${prefix}${name}.`)
        : [],
  )
}

function noting<Part extends object>(part: Part, called: Set<string>, prefix = ''): Part {
  return new Proxy(part, {
    get(target, property, receiver) {
      const value: unknown = Reflect.get(target, property, receiver)
      const name = prefix + String(property)
      if (typeof value === 'object' && value !== null) return noting(value, called, `${name}.`)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        called.add(name)
        return value.apply(target, args)
      }
    },
  })
}
