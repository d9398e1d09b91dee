import { rm } from 'node:fs/promises'
import path from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { PauseFate, ResumeFate } from './faults.ts'
import { Machine, type Started } from './machine.ts'
import { type Box, newId, type SandboxEvent, type Settings, type Snapshot, type Status } from './records.ts'
import { ApiError, conflict, noSandbox, noSnapshot } from './replies.ts'

/** Where a change can be held up by a test. A checkpoint is written after its sandbox is shown as suspended. */
export type Phase = 'creating' | 'pausing' | 'writing' | 'resuming' | 'snapshotting'

const NO_CHECKPOINT = 'Cannot resume sandbox: it is suspended but has no checkpoint data'
const AWAKE: Status[] = ['idle', 'running']

/** All sandboxes there are, and what may be done to them. */
export class Cloud {
  readonly boxes = new Map<string, Box>()
  readonly snapshots = new Map<string, Snapshot>()
  readonly runtimes = new Set(['bun:1', 'python:3.14'])
  /** A job in one that is suspended resumes it, as an execution does. */
  jobsWake = false
  /** What happens from now on is recorded, and not shown yet. */
  hidesEvents = false
  /** Those that are made from now on are in no list. */
  hidesNew = false
  /** Where a job's output is read is told when it has begun, and not when it was asked for. */
  jobsBeginLate = false
  /** One that is destroyed is shown as terminated from then on. */
  showsDestroyed = false
  /** What it makes of how long one may be paused, whatever was asked for. */
  pausedTimeout: string | undefined
  readonly #root: string
  readonly #reach: (phase: Phase) => Promise<void>
  readonly #hidden: [Box, SandboxEvent][] = []
  #lastMs = 0

  constructor(root: string, reach: (phase: Phase) => Promise<void>) {
    this.#root = root
    this.#reach = reach
  }

  find(id: string): Box {
    const box = this.boxes.get(id)
    if (!box) throw noSandbox()
    return box
  }

  async create(asked: Settings): Promise<Box> {
    const { runtime, snapshot, env = {}, timeout = {} } = asked
    const granted = this.pausedTimeout === undefined ? {} : { paused: this.pausedTimeout }
    const settings = { ...asked, timeout: { ...timeout, ...granted } }
    if (runtime !== undefined && !this.runtimes.has(runtime))
      throw new ApiError(400, `Runtime ${runtime} is not supported`)
    const files = snapshot === undefined ? undefined : this.findSnapshot(snapshot).files
    const id = newId('sbx', 30)
    const machine = await Machine.start(id, path.join(this.#root, 'sandboxes', id), env, files)
    const box: Box = {
      ...{
        id,
        settings,
        machine,
        createdAt: this.now(),
        status: 'creating',
        events: [],
        checkpoints: [],
        executions: [],
      },
      ...{ saved: undefined, isChanging: false, isHollow: false, isListed: !this.hidesNew },
    }
    this.boxes.set(id, box)
    this.tell(box, 'create')
    const started = this.#reach('creating').then(() => {
      if (box.status !== 'creating') return
      box.status = 'idle'
      this.tell(box, 'lifecycle:started')
    })
    await Promise.race([started, nextTurn()])
    return box
  }

  /** Whoever asks gets its answer when it is suspended, and not when its checkpoint is written. */
  async pause(box: Box, fate?: PauseFate): Promise<string | undefined> {
    if (!AWAKE.includes(box.status) || box.isChanging) throw conflict(`Cannot pause sandbox: it is ${box.status}`)
    return this.#change(box, async () => {
      box.status = 'stopping'
      await box.machine.suspend()
      await this.#reach('pausing')
      if (fate === 'breaks it') {
        box.isHollow = true
        box.status = 'idle'
        throw new ApiError(500, 'Internal Server Error')
      }
      box.status = 'suspended'
      box.saved = undefined
      const id = newId('ckpt')
      const isRecorded = fate !== 'records nothing' && fate !== 'names what is not there'
      const written = this.#reach('writing').then(() => {
        if (isRecorded) box.saved = id
        this.tell(box, 'checkpoint-received', isRecorded ? { checkpointId: id, bucket: 'checkpoints', size: 4096 } : {})
        this.tell(box, 'lifecycle:suspended')
      })
      await Promise.race([written, nextTurn()])
      return fate === 'records nothing' || fate === 'does not tell' ? undefined : id
    })
  }

  /** Its machine is needed for something else. */
  async evacuate(box: Box, fate?: PauseFate): Promise<void> {
    this.tell(box, 'evacuated')
    await this.pause(box, fate)
  }

  async resume(box: Box, fate?: ResumeFate): Promise<void> {
    if (box.status !== 'suspended' || box.isChanging) throw conflict(`Cannot resume sandbox: it is ${box.status}`)
    if (box.saved === undefined) throw conflict(NO_CHECKPOINT)
    await this.#change(box, async () => {
      await this.#reach('resuming')
      if (fate === 'wipes it') await box.machine.wipe()
      else if (fate === 'leaves it hollow') box.isHollow = true
      else box.machine.wake()
      box.saved = undefined
      box.status = 'idle'
      this.tell(box, 'lifecycle:resumed')
    })
  }

  async execute(box: Box, command: string[]): Promise<{ started: Started; autoResumed: boolean }> {
    const autoResumed = box.status === 'suspended'
    if (autoResumed) await this.resume(box)
    this.#requireUsable(box)
    if (box.executions.some(({ completedAt }) => completedAt === undefined))
      throw new ApiError(409, 'Sandbox is busy', 'SANDBOX_BUSY')
    const started = box.machine.spawn('exe', command)
    box.executions.push(started)
    box.status = 'running'
    void started.ended.then(() => {
      if (box.status === 'running') box.status = 'idle'
    })
    return { started, autoResumed }
  }

  async startJob(box: Box, command: string[]): Promise<Started> {
    if (box.status === 'suspended' && this.jobsWake) await this.resume(box)
    this.#requireUsable(box)
    return box.machine.spawn('job', command)
  }

  findStarted(id: string): { box: Box; started: Started } {
    for (const box of this.boxes.values()) {
      const started = box.machine.started.get(id)
      if (started) return { box, started }
    }
    throw new ApiError(404, 'Execution not found', 'EXECUTION_NOT_FOUND')
  }

  async destroy(box: Box): Promise<void> {
    this.tell(box, 'destroy')
    if (this.showsDestroyed) box.status = 'terminated'
    else this.boxes.delete(box.id)
    await box.machine.destroy()
  }

  async terminate(box: Box, exitCode: number): Promise<void> {
    box.status = 'terminated'
    box.exitCode = exitCode
    box.saved = undefined
    await box.machine.destroy()
    this.tell(box, 'lifecycle:terminated', { exitCode })
  }

  async takeSnapshot(box: Box, name: string): Promise<Snapshot> {
    this.#requireUsable(box)
    const id = newId('snp')
    const files = path.join(this.#root, 'snapshots', id)
    await box.machine.copyTo(files)
    await this.#reach('snapshotting')
    const snapshot = { id, name, of: box.id, createdAt: this.now(), sizeBytes: 4096, files }
    this.snapshots.set(id, snapshot)
    return snapshot
  }

  findSnapshot(id: string): Snapshot {
    const found = this.snapshots.get(id)
    if (!found) throw noSnapshot()
    return found
  }

  async deleteSnapshot(id: string): Promise<void> {
    const { files } = this.findSnapshot(id)
    this.snapshots.delete(id)
    await rm(files, { recursive: true, force: true })
  }

  tell(box: Box, type: string, event: object = {}): void {
    const told = { eventId: newId('evt'), sandboxId: box.id, type, event, createdAt: this.now() }
    if (this.hidesEvents) this.#hidden.push([box, told])
    else box.events.push(told)
  }

  /** All that tests can switch on is off. */
  becomeHonest(): void {
    this.jobsWake = false
    this.jobsBeginLate = false
    this.hidesNew = false
    this.pausedTimeout = undefined
    this.showsDestroyed = false
    this.showEvents()
    for (const box of this.boxes.values()) box.isListed = true
  }

  showEvents(): void {
    this.hidesEvents = false
    for (const [box, told] of this.#hidden.splice(0)) box.events.push(told)
  }

  /** No two things happen at once. */
  now(): string {
    this.#lastMs = Math.max(Date.now(), this.#lastMs + 1)
    return new Date(this.#lastMs).toISOString()
  }

  #requireUsable(box: Box): void {
    if (box.isHollow) throw new ApiError(500, 'Internal Server Error')
    if (!AWAKE.includes(box.status)) throw conflict(`Sandbox is ${box.status}`)
  }

  async #change<T>(box: Box, work: () => Promise<T>): Promise<T> {
    box.isChanging = true
    try {
      return await work()
    } finally {
      box.isChanging = false
    }
  }
}
