import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { SandboxClient } from '@agentuity/server'
import { expect, onTestFinished, test } from 'vitest'
import { FakeAgentuity } from '../../support/agentuity/server.ts'

/** As whoever has only the SDK sees it. */
async function setup() {
  const agentuity = await FakeAgentuity.start()
  onTestFinished(() => agentuity.stop())
  const { url, apiKey } = agentuity
  const client = new SandboxClient({ url, apiKey })
  return { agentuity, client }
}

const WAITING = 'echo one; until [ -e go ]; do sleep 0.02; done; echo two'

const outputOf = async (url: string | null | undefined) => (await fetch(url as string)).text()

test('a sandbox is made, shown, listed by its name, and gone when it was destroyed', async () => {
  const { client } = await setup()
  const sandbox = await client.create({ name: 'one', metadata: { a: 'b' }, timeout: { paused: '0s' } })
  const shown = { sandboxId: sandbox.id, name: 'one', status: 'idle' }
  expect(await client.get(sandbox.id)).toMatchObject({ ...shown, metadata: { a: 'b' }, timeout: { paused: '0s' } })
  const { sandboxes, total } = await client.list({ name: 'one' })
  expect([total, sandboxes[0]?.metadata]).toEqual([1, undefined])
  expect((await client.list({ name: 'other' })).total).toBe(0)
  await sandbox.destroy()
  await expect(client.get(sandbox.id)).rejects.toMatchObject({ _tag: 'APIErrorResponse', status: 404 })
})

test('a pause freezes what runs, names its checkpoint and is told of; a resume lets it go on', async () => {
  const { agentuity, client } = await setup()
  const { id } = await client.create()
  const job = await client.createJob(id, { command: ['sh', '-c', WAITING] })
  const paused = await client.pause(id)
  expect(paused).toMatchObject({ sandboxId: id, status: 'suspended', checkpointId: expect.stringMatching(/^ckpt_/) })
  await expect(client.pause(id)).rejects.toMatchObject({ status: 409 })
  expect(agentuity.pidsOf(id).length).toBeGreaterThan(0)
  expect((await job.get()).status).toBe('running')
  await writeFile(path.join(agentuity.folderOf(id), 'go'), '')
  await client.resume(id)
  await expect(client.resume(id)).rejects.toMatchObject({ status: 409 })
  await expect.poll(async () => (await job.get()).status).toBe('completed')
  expect(await outputOf((await job.get()).stdoutStreamUrl)).toBe('one\ntwo\n')
  const { events } = await client.listEvents(id, { direction: 'asc' })
  expect(events.map(({ type }) => type)).toEqual([
    'create',
    'lifecycle:started',
    'checkpoint-received',
    'lifecycle:suspended',
    'lifecycle:resumed',
  ])
  expect(events[2]?.event).toMatchObject({ checkpointId: paused.checkpointId })
})

test('an execution wakes what sleeps, and only one runs at a time', async () => {
  const { client } = await setup()
  const sandbox = await client.create()
  await sandbox.pause()
  const { exitCode, stdoutStreamUrl } = await sandbox.execute({ command: ['sh', '-c', 'echo hi; exit 3'] })
  expect([exitCode, await outputOf(stdoutStreamUrl)]).toEqual([3, 'hi\n'])
  const giving = new AbortController()
  const running = sandbox.execute({ command: ['sleep', '1000'], signal: giving.signal })
  running.catch(() => {})
  await expect.poll(async () => (await client.get(sandbox.id)).status).toBe('running')
  await expect(sandbox.execute({ command: ['true'] })).rejects.toMatchObject({ _tag: 'SandboxBusyError' })
  giving.abort()
})

test('checkpoints of files have names of their own, and none of what sleeps are told', async () => {
  const { client } = await setup()
  const { id } = await client.create()
  const made = await client.createDiskCheckpoint(id, 'before')
  await expect(client.createDiskCheckpoint(id, 'before')).rejects.toMatchObject({ status: 409 })
  expect((await client.listDiskCheckpoints(id)).map((each) => each.id)).toEqual([made.id])
  await client.pause(id)
  await expect(client.listDiskCheckpoints(id)).rejects.toMatchObject({ status: 409 })
})

test('a resume without a checkpoint is a conflict, in the words that it is known for', async () => {
  const { agentuity, client } = await setup()
  const { id } = await client.create()
  agentuity.next('pause', { kind: 'pause', fate: 'records nothing' })
  expect((await client.pause(id)).checkpointId).toBeUndefined()
  await expect(client.resume(id)).rejects.toMatchObject({
    status: 409,
    message: 'Cannot resume sandbox: it is suspended but has no checkpoint data',
  })
  expect((await client.get(id)).status).toBe('suspended')
})

test('a lost answer makes the SDK ask again by itself, which makes two', async () => {
  const { agentuity, client } = await setup()
  agentuity.next('create', { kind: 'reset', performed: true })
  await client.create({ name: 'twice' })
  expect((await client.list({ name: 'twice' })).total).toBe(2)
})

test('an answer with nothing in it looks to the SDK like a failure, and is none', async () => {
  const { agentuity, client } = await setup()
  const sandbox = await client.create()
  agentuity.next('destroy', { kind: 'no content' })
  await expect(sandbox.destroy()).rejects.toMatchObject({ _tag: 'ValidationOutputError' })
  expect(agentuity.statusOf(sandbox.id)).toBeUndefined()
})
