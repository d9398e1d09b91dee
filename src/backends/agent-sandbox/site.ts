import type { Agents } from '../kubernetes/agents.ts'
import type { Cluster } from '../kubernetes/cluster.ts'
import type { Served } from './served.ts'

/** A cluster, and what it serves. */
export type Site = {
  cluster: Cluster
  served: Served
  /** What a pause keeps. */
  keeps: 'disk' | 'memory'
  agents: Agents
}
