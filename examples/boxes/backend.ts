import { type Agent, type Backend, BackendError, type Call, type Owner, type Target, type Wanted } from 'sandman'
import {
  agentStatus,
  attach,
  endLingering,
  type Inside,
  partOf,
  runCommand,
  startAgent,
  stopAgent,
} from 'sandman/shell'
import { boxesClient } from './client.ts'
import type { Box } from './service.ts'

/**
 * A whole backend, for the provider in `service.ts`. A sandbox is a box; agents are what the shell toolkit makes of its one
 * ability, to run a script. It can neither pause nor copy, and says so: then there is no method that could pretend.
 */
export function openBoxesBackend({ url, fleet }: { url: string; fleet: string }): Backend {
  const { find, require, request, shellOf, listAll } = boxesClient(url)

  /** Everything that is made carries its owner from its first moment, and only what carries this fleet's name is ever touched. */
  const labelsOf = ({ sandboxId, life }: Owner) => ({ fleet, sandboxId, life })
  const isOurs = ({ labels }: Box) => labels.fleet === fleet

  async function ownBox(ref: string, call: Call): Promise<Box> {
    const box = await require(ref, call)
    if (isOurs(box)) return box
    throw new BackendError('sandbox_expired', `This fleet has no box ${ref}`)
  }

  /** Looks before it acts: a call that was meant for another incarnation must not hit this one. */
  async function meant({ ref, incarnation }: Target, call: Call): Promise<Inside> {
    const box = await ownBox(ref, call)
    if (box.born === incarnation) return insideOf(box)
    throw new BackendError(
      'overtaken',
      `${ref} is ${box.born} now, and ${incarnation ?? 'one that does not run'} was meant`,
    )
  }

  const insideOf = (box: Box): Inside => ({ shell: shellOf(box), root: box.born })

  /** Its name comes from its life, so the same life makes one box, however often and by however many it is asked for. */
  async function create({ sandboxId, life, spec, checkpointRef }: Wanted, call: Call): Promise<{ ref: string }> {
    const asked = { template: spec.template, limits: spec.limits, readOnlyRoot: spec.readOnlyRoot, from: checkpointRef }
    const unknown = Object.entries(asked).find(([, value]) => value !== undefined)
    if (unknown) throw new BackendError('spec_invalid', `Boxes cannot keep to \`${unknown[0]}\`: leave it out`)
    const ref = `${fleet}.${life}`
    const box = await request<Box>('PUT', `/boxes/${ref}`, call, JSON.stringify(labelsOf({ sandboxId, life })))
    const { agent } = spec
    const { sidecar } = agent ?? {}
    // Each is started once, so whoever comes after one that died here finishes its work.
    if (agent) await startAgent(insideOf(box), { part: 'agent', ...agent }, call)
    if (sidecar) await startAgent(insideOf(box), { part: 'sidecar', ...sidecar }, call)
    return { ref }
  }

  async function insideFor({ ref, incarnation, key }: Agent, call: Call): Promise<Inside | undefined> {
    partOf(key) // or it cannot be one
    const box = await ownBox(ref, call)
    return box.born === incarnation ? insideOf(box) : undefined
  }

  return {
    name: 'boxes',

    async find(sandboxId, call) {
      const boxes = (await listAll(call)).filter((box) => isOurs(box) && box.labels.sandboxId === sandboxId)
      return boxes.map(({ name, labels }) => ({ ref: name, life: labels.life ?? '' }))
    },
    create,
    async adopt(ref, _owner, call) {
      await ownBox(ref, call) // labels cannot be changed here; its row knows it by its name
    },
    async look(ref, call) {
      const box = await find(ref, call)
      return box && isOurs(box) ? { is: 'running', incarnation: box.born } : { is: 'absent' }
    },
    async end({ ref, incarnation }, call) {
      try {
        await meant({ ref, incarnation }, call)
        await request('DELETE', `/boxes/${ref}?born=${incarnation}`, call)
      } catch (error) {
        // It may have ended by itself at any moment, and that is what was wanted. Any other failure says nothing of the sort.
        if (!(error instanceof BackendError && error.type === 'sandbox_expired')) throw error
      }
    },

    run: async (target, command, call) => runCommand(await meant(target, call), command, call),
    endLingering: async (target, call) => endLingering(await meant(target, call), call),
    previewUrl: async (_ref, port) => `http://127.0.0.1:${port}`,

    async startAgent(target, { key, command }, call) {
      await startAgent(await meant(target, call), { part: partOf(key), command }, call)
    },
    async stopAgent({ key, ...target }, call) {
      await stopAgent(await meant(target, call), partOf(key), call)
    },
    async agentStatus(agent, call) {
      const inside = await insideFor(agent, call)
      return inside ? agentStatus(inside, partOf(agent.key), call) : { is: 'restarted', why: 'it is another box now' }
    },
    async *attach(agent, cursor, call) {
      const inside = await insideFor(agent, call)
      if (inside) yield* attach(inside, partOf(agent.key), cursor, call)
    },

    lists: {
      place: async () => ({ name: url, holds: (ref) => ref.startsWith(`${fleet}.`) }),
      async instances(cursor, call) {
        const page = await request<Box[]>('GET', `/boxes?after=${encodeURIComponent(cursor ?? '')}`, call)
        const items = page.filter(isOurs).map(({ name, labels }) => ({
          ref: name,
          sandboxId: labels.sandboxId ?? '',
          life: labels.life ?? '',
        }))
        return { items, next: page.at(-1)?.name }
      },
      checkpoints: 'none',
    },

    pausing: 'none',
    snapshots: 'none',
    lease: 'none',
    close: async () => {},
  }
}
