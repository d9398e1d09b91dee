import { BlockList } from 'node:net'
import type { V1Namespace, V1NetworkPolicy, V1NetworkPolicyPeer } from '@kubernetes/client-node'
import { expect, test } from 'vitest'
import { readManifest, readManifests, readTemplate } from '../support/manifests.ts'

const SANDBOXES = 'sandman-sandboxes'

/** As it is written: the SDK calls `from` otherwise. */
type Policy = Omit<V1NetworkPolicy['spec'], 'ingress'> & { ingress?: { from: V1NetworkPolicyPeer[] }[] }
const policy = async (name: string) => (await readManifest<V1NetworkPolicy>('NetworkPolicy', name)).spec as Policy

test.each(['sandman', SANDBOXES])('%s lets in only pods that are restricted', async (name) => {
  const { metadata } = await readManifest<V1Namespace>('Namespace', name)
  expect(metadata?.labels).toMatchObject({ 'pod-security.kubernetes.io/enforce': 'restricted' })
})

test('every policy is about all sandboxes, and no other pods', async () => {
  const policies = (await readManifests()).filter(({ kind }) => kind === 'NetworkPolicy')
  expect(policies).toHaveLength(3)
  for (const { metadata, spec } of policies) {
    expect(metadata?.namespace).toBe(SANDBOXES)
    expect(spec).toMatchObject({ podSelector: {} })
  }
})

test('nobody gets into a sandbox but workers', async () => {
  expect(await policy('no-one-gets-in')).toEqual({ podSelector: {}, policyTypes: ['Ingress'] })
  const { ingress } = await policy('workers-see-previews')
  const worker = {
    namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'sandman' } },
    podSelector: { matchLabels: (await readTemplate('worker')).metadata?.labels },
  }
  expect(ingress).toEqual([{ from: [worker] }])
})

test.each([
  ['what a cloud says of the machine, with its credentials', '169.254.169.254', false],
  ['the same of AWS by IPv6', 'fd00:ec2::254', false],
  ['the API server, a pod, a database in the same network', '10.96.0.1', false],
  ['another network of the kind', '172.20.0.1', false],
  ['and another', '192.168.1.1', false],
  ['nodes of some clusters', '100.64.3.4', false],
  ['the internet', '1.1.1.1', true],
  ['the internet by IPv6', '2606:4700:4700::1111', true],
])('a sandbox gets out to %s: %s, %s', async (_what, address, isReached) => {
  const { egress = [] } = (await policy('out-to-the-internet')) as V1NetworkPolicy['spec'] & object
  const withoutPorts = egress.filter(({ ports }) => ports === undefined).flatMap(({ to = [] }) => to)
  expect(withoutPorts.some(({ ipBlock }) => ipBlock !== undefined && isIn(address, ipBlock))).toBe(isReached)
})

test('names are asked of the cluster’s own servers', async () => {
  const { egress = [] } = (await policy('out-to-the-internet')) as V1NetworkPolicy['spec'] & object
  const [names, ...others] = egress.filter(({ ports }) => ports !== undefined)
  expect(others).toEqual([])
  expect(names?.ports).toEqual([
    { protocol: 'UDP', port: 53 },
    { protocol: 'TCP', port: 53 },
  ])
})

function isIn(address: string, { cidr, except = [] }: { cidr: string; except?: string[] }): boolean {
  const family = address.includes(':') ? 'ipv6' : 'ipv4'
  const holds = (network: string) => {
    const [base = '', bits] = network.split('/')
    const kind = base.includes(':') ? 'ipv6' : 'ipv4'
    const list = new BlockList()
    list.addSubnet(base, Number(bits), kind)
    return kind === family && list.check(address, family)
  }
  return holds(cidr) && !except.some(holds)
}
