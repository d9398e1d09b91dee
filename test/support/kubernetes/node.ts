import type { Bell } from './bell.ts'
import type { Condition, KubeObject } from './objects.ts'
import type { Container, ContainerAsked, Runtime } from './runtime/runtime.ts'
import type { Store } from './store.ts'
import type { Volumes } from './volumes.ts'

/** What all pods of a node have in common. */
export type Node = {
  store: Store
  runtime: Runtime
  volumes: Volumes
  images: Set<string>
  nowMs: () => number
  /** So long is a second of grace, and of everything else that a kubelet waits for. */
  graceScale: number
  statusLagMs: number
  isSchedulable: boolean
  /** Rung when one of these has changed. */
  bell: Bell
  stopping: AbortSignal
  restore: Restore
  /** Called before the containers of a pod are stopped: what of them is to be kept is taken away. Tells whether anything was. */
  keep: (podUid: string) => Promise<boolean>
}

/** What the containers of a pod go on from, by their names; undefined where they begin afresh. */
export type Restore = (
  pod: KubeObject,
  askedOf: () => Promise<Map<string, ContainerAsked>>,
) => Promise<{ containers: Map<string, Container>; condition: Condition } | undefined>
