import { rm } from 'node:fs/promises'
import path from 'node:path'
import { newTemplateId, type Snapshot } from './records.ts'
import { ApiError } from './replies.ts'

const TEAM = 'team'
const DEFAULT_TAG = 'default'

/** What sandboxes are made from: a few templates that are empty, and all snapshots. */
export class Templates {
  readonly snapshots = new Map<string, Snapshot>()
  /** By its alias. */
  readonly #empty = new Map([
    ['base', newTemplateId()],
    ['code-interpreter-v1', newTemplateId()],
  ])
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  /** One more that is there by this name. */
  addEmpty(alias: string): void {
    this.#empty.set(alias, newTemplateId())
  }

  resolve(name: string): { templateId: string; alias: string | undefined; files: string | undefined } {
    for (const [alias, templateId] of this.#empty)
      if (name === alias || name === templateId) return { templateId, alias, files: undefined }
    const snapshot = this.#find(name)
    if (!snapshot) throw new ApiError(404, `template '${name}' not found`)
    return { templateId: snapshot.templateId, alias: snapshot.names[0], files: snapshot.files }
  }

  /** The same name again gives the same template, whose copy is replaced. */
  prepare(of: string, asked: string | undefined, createdAtMs: number): Snapshot {
    const [name, tag = DEFAULT_TAG] = asked?.split(':') ?? []
    if (name === '') throw new ApiError(400, `Invalid name: '${asked}'`)
    const known =
      name === undefined ? undefined : [...this.snapshots.values()].find(({ names }) => names.includes(full(name)))
    const templateId = known?.templateId ?? newTemplateId()
    const id = `${name === undefined ? templateId : full(name)}:${tag}`
    const files = path.join(this.#folder, `${templateId}-${tag}-${createdAtMs}`)
    return { id, templateId, names: name === undefined ? [] : [full(name)], of, createdAtMs, files }
  }

  add(snapshot: Snapshot): void {
    this.snapshots.set(snapshot.id, snapshot)
  }

  /** With every tag that it has, since it is the template that is deleted. */
  async delete(name: string, isUsed: (templateId: string) => 'running' | 'paused' | undefined): Promise<void> {
    const found = this.#find(name)
    if (!found) throw new ApiError(404, `template '${name}' not found`)
    const { templateId } = found
    const state = isUsed(templateId)
    if (state)
      throw new ApiError(400, `cannot delete template '${templateId}' because there are ${state} sandboxes using it`)
    for (const one of [...this.snapshots.values()].filter((one) => one.templateId === templateId)) {
      this.snapshots.delete(one.id)
      await rm(one.files, { recursive: true, force: true })
    }
  }

  #find(asked: string): Snapshot | undefined {
    const [name = '', tag = DEFAULT_TAG] = asked.split(':')
    return [...this.snapshots.values()].find(
      ({ id, templateId, names }) => id.endsWith(`:${tag}`) && (templateId === name || names.includes(full(name))),
    )
  }
}

const full = (name: string) => (name.includes('/') ? name : `${TEAM}/${name}`)
