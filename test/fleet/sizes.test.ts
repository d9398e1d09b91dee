import { expect, test } from 'vitest'
import { executionLines, sandboxLines } from '../../src/cli/sheet.ts'
import type { CheckpointRow, SandboxRow } from '../../src/db/schema.ts'
import type { Checkpoint, Execution, Sandbox } from '../../src/fleet/views.ts'
import { tellWhy } from '../../src/fleet/why.ts'
import { checkpoints } from '../../src/web/console/facts.ts'

const at = new Date('2026-03-01T12:00:00Z')
const view = { fleet: 'default', now: at, mayOperate: false, user: undefined, at: (path: string) => path }

test.each([
  [4_096, '4 KiB'],
  [1, '1 byte'],
  [0, undefined],
  [null, undefined],
])('a checkpoint of %s bytes is told by the sheet, the console and why in one way: %s', async (sizeBytes, told) => {
  const checkpoint: Checkpoint = {
    id: 'ckpt_1',
    kind: 'pause',
    status: 'ready',
    providerRef: 'ckpt_1',
    name: null,
    sizeBytes,
    createdAt: at,
    verifiedAt: at,
  }
  const sandbox = {
    id: 'sbx_1',
    backend: 'local',
    state: 'suspended',
    checkpoint,
    ttl: { idleMs: null, hardMs: null, retentionMs: null, ifUnsupported: null },
    metadata: {},
    createdAt: at,
    stateChangedAt: at,
    lastActiveAt: at,
  } as unknown as Sandbox
  const row = { id: 'sbx_1', state: 'suspended', suspended_at: at, state_changed_at: at } as SandboxRow
  const ckpt = { id: 'ckpt_1', size_bytes: sizeBytes } as CheckpointRow
  const texts = {
    sheet: sandboxLines({ sandbox, operations: [], executions: [], story: [] }).join('\n'),
    console: String(await checkpoints(view, [checkpoint], sandbox, false)),
    why: tellWhy({ sandbox: row, checkpoint: ckpt, events: [], operations: [], executions: [], findings: [] }).answer,
  }
  for (const text of Object.values(texts)) {
    expect(text).toContain('ckpt_1')
    if (told) expect(text).toContain(told)
    else expect(text).not.toMatch(/\d bytes|KiB|null|\(\)|, ,/)
  }
})

test('what an execution has printed is told in the same way, and that it is nothing, too', () => {
  const lines = (outputBytes: number) =>
    executionLines({
      execution: {
        id: 'exe_1',
        status: 'running',
        command: ['true'],
        outputBytes,
        createdAt: at,
      } as unknown as Execution,
      sandbox: { id: 'sbx_1', state: 'running' } as Sandbox,
    }).join('\n')
  expect(lines(64 << 20)).toMatch(/Output +64 MiB: sandman logs exe_1/)
  expect(lines(0)).toMatch(/Output +0 bytes: sandman logs exe_1/)
})
