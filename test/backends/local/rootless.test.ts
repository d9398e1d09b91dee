import { spawn } from 'node:child_process'
import { chmod, chown, copyFile, cp, mkdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { COUNTING, FIRST_LIFE, setup, wanted } from './setup.ts'

const NOBODY = 65_534

/** Everybody else runs all the tests as somebody else. */
if (process.getuid?.() === 0)
  test('a sandbox lives, sleeps, wakes and ends without root, and so do its agents', async () => {
    const { folder } = await setup()
    await rm(path.join(folder, 'test'), { recursive: true })
    await copyProgram(folder)
    const script = `
    import { openLocalBackend } from './src/backends/local/backend.ts'
    import { findInstance } from './src/backends/local/instance.ts'
    import { findMembers } from './src/backends/local/processes.ts'
    const call = { signal: new AbortController().signal }
    const backend = openLocalBackend({ folder: '.', fleet: 'test' })
    const { ref } = await backend.create(${JSON.stringify(wanted(COUNTING))}, call)
    const instance = await findInstance({ id: ref.split('.')[0], instances: process.cwd() + '/test/instances' }, ref)
    const sightings = [await backend.look(ref, call)]
    await backend.run({ ref, incarnation: '${FIRST_LIFE}' }, 'mkdir locked && echo x > locked/in && chmod 500 locked', call)
    const say = ['sh', '-c', 'trap "echo bye; exit 4" TERM; mkfifo pipe; exec 3<>pipe; echo hi; read x <&3']
    await backend.startAgent({ ref, incarnation: '${FIRST_LIFE}' }, { key: 'exe_1', command: say }, call)
    await backend.pausing.suspend({ ref, incarnation: '${FIRST_LIFE}' }, { key: 'op_pause' }, call)
    sightings.push(await backend.look(ref, call))
    const members = await findMembers(instance)
    const [{ checkpointRef }] = sightings.slice(-1)
    await backend.pausing.resume({ ref, checkpointRef }, { key: 'op_resume', ttlMs: 1000 }, call)
    sightings.push(await backend.look(ref, call))
    const awake = await findMembers(instance)
    const status = await backend.agentStatus({ ref, incarnation: 'op_resume' }, call)
    const agent = { ref, incarnation: 'op_resume', key: 'exe_1' }
    let said = ''
    for await (const { bytes } of backend.attach(agent, undefined, call)) {
      said += Buffer.from(bytes)
      if (said === 'hi\\n') await backend.stopAgent(agent, call)
    }
    const agentStatus = await backend.agentStatus(agent, call)
    await backend.end({ ref, incarnation: 'op_resume' }, call)
    sightings.push(await backend.look(ref, call))
    await backend.pausing.discard(checkpointRef, call)
    console.log(JSON.stringify({
      uid: process.getuid(), cgroups: instance.labels.cgroups, sightings, status, said, agentStatus,
      stopped: members.map((member) => member.isStopped || member.isWaitingForStopped), awake: awake.every((member) => !member.isStopped),
      left: await findMembers(instance),
    }))`
    await writeFile(path.join(folder, 'script.ts'), script)
    const { code, output } = await runAsNobody(folder)
    expect(code, output).toBe(0)
    const told = JSON.parse(output) as { stopped: boolean[] }
    expect(told).toMatchObject({
      uid: NOBODY,
      cgroups: {},
      sightings: [
        { is: 'running', incarnation: FIRST_LIFE },
        { is: 'suspended', checkpointRef: expect.stringMatching(/\.op_pause$/) },
        { is: 'running', incarnation: 'op_resume' },
        { is: 'absent' },
      ],
      status: { is: 'running' },
      said: 'hi\nbye\n',
      agentStatus: { is: 'terminated', exitCode: 4, signal: null },
      awake: true,
      left: [],
    })
    expect(new Set(told.stopped)).toEqual(new Set([true]))
  })

/** Nobody cannot enter every clone, nor every home in which there is a Node. */
async function copyProgram(folder: string): Promise<void> {
  await cp('src', path.join(folder, 'src'), { recursive: true })
  await writeFile(path.join(folder, 'package.json'), '{"type":"module"}')
  await mkdir(path.join(folder, 'bin'))
  await copyFile(process.execPath, path.join(folder, 'bin', 'node'))
  await chmod(path.join(folder, 'bin', 'node'), 0o755)
  await chown(folder, NOBODY, NOBODY)
}

async function runAsNobody(folder: string): Promise<{ code: number | null; output: string }> {
  const child = spawn(path.join(folder, 'bin', 'node'), ['script.ts'], {
    cwd: folder,
    uid: NOBODY,
    gid: NOBODY,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  return { code, output }
}
