import { randomBytes } from 'node:crypto'
import { rfc3339 } from './objects.ts'
import type { ContainerSpec } from './pods.ts'
import type { Container, ContainerEnd } from './runtime/runtime.ts'

type Terminated = {
  exitCode: number
  reason: string
  message?: string
  startedAt: string | null
  finishedAt: string | null
  containerID: string
}
type ContainerState =
  | { waiting: { reason: string; message?: string } }
  | { running: { startedAt: string } }
  | { terminated: Terminated }

/** What a test says of an end, whatever it really was. */
export type Verdict = { exitCode?: number; reason?: string; message?: string }

/** The place of one container in a pod, through all its restarts. */
export class Slot {
  readonly spec: ContainerSpec
  readonly role: 'init' | 'sidecar' | 'regular'
  state: ContainerState
  lastState: { terminated: Terminated } | undefined
  restartCount = 0
  /** Of now, or the last one. */
  container: Container | undefined
  /** The one before, whose log can still be read. */
  previous: Container | undefined
  verdict: Verdict | undefined
  mustRestart = false
  #containerId = ''

  constructor(spec: ContainerSpec, role: Slot['role'], waitsFor: string) {
    this.spec = spec
    this.role = role
    this.state = { waiting: { reason: waitsFor } }
  }

  get isRunning(): boolean {
    return 'running' in this.state
  }

  get terminated(): Terminated | undefined {
    return 'terminated' in this.state ? this.state.terminated : undefined
  }

  wait(reason: string, message?: string): void {
    this.state = { waiting: { reason, ...(message !== undefined && { message }) } }
  }

  /** Another one begins in it. */
  begin(container: Container): void {
    this.previous = this.container
    this.container = container
    this.#containerId = `containerd://${randomBytes(32).toString('hex')}`
    this.state = { running: { startedAt: rfc3339(container.startedAt.getTime()) } }
  }

  finish(end: ContainerEnd): void {
    const isUnstarted = end.reason === 'StartError'
    const terminated: Terminated = {
      exitCode: isUnstarted ? 128 : end.exitCode,
      reason: end.reason,
      ...(end.message !== undefined && { message: end.message }),
      startedAt: rfc3339(isUnstarted ? 0 : end.startedAt.getTime()),
      finishedAt: rfc3339(end.finishedAt.getTime()),
      containerID: this.#containerId,
      ...this.verdict,
    }
    this.verdict = undefined
    this.state = { terminated }
  }

  /** The end is remembered while the next one comes. */
  retire(): void {
    if ('terminated' in this.state) this.lastState = { terminated: this.state.terminated }
  }

  status() {
    const { name, image } = this.spec
    const isStarted = this.isRunning
    return {
      name,
      state: this.state,
      lastState: this.lastState ?? {},
      ready: this.role === 'init' ? this.terminated?.exitCode === 0 : isStarted,
      started: isStarted,
      restartCount: this.restartCount,
      image,
      imageID: this.#containerId === '' ? '' : `${image}@sha256:${'0'.repeat(64)}`,
      ...(this.#containerId !== '' && { containerID: this.#containerId }),
    }
  }
}
