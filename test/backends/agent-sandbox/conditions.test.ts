import { expect, test } from 'vitest'
import { sandboxOf } from '../../../src/backends/agent-sandbox/resource.ts'
import type { Site } from '../../../src/backends/agent-sandbox/site.ts'

const siteOf = (version: 'v1beta1' | 'v1alpha1') =>
  ({ served: { dialect: { version, isAsleep: () => false } } }) as unknown as Site

const sandboxWith = (observedGeneration: number | undefined) => ({
  kind: 'Sandbox',
  metadata: { name: 'a', uid: 'uid', resourceVersion: '7', generation: 3 },
  status: { conditions: [{ type: 'Ready', status: 'True', ...(observedGeneration && { observedGeneration }) }] },
})

test.each([
  ['v1beta1', 3, true],
  ['v1beta1', 2, false],
  ['v1beta1', undefined, false],
  ['v1alpha1', 2, false],
  ['v1alpha1', undefined, true],
] as const)(
  'a condition of %s that tells of generation %s, when it is the third, is current: %s',
  (version, told, is) => {
    const { conditions, isObserved } = sandboxOf(siteOf(version), sandboxWith(told), 'a test')
    expect({ isCurrent: conditions.Ready?.isCurrent, isObserved }).toEqual({ isCurrent: is, isObserved: is })
  },
)
