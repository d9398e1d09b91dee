import { existsSync } from 'node:fs'
import { chmod, mkdir, readdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { stateOf } from '../e2b/fake-setup.ts'
import { IDLING, nameOf, run, said, setup, sh, textOf, until } from './runtime-setup.ts'

describe('a container', () => {
  test('has what it was given, a folder of its own, and nothing else of this process but the path', async () => {
    const { folder, start } = await setup()
    const container = await start(['env'], { env: { COLOUR: 'red', SIZE: '7' }, workingDir: undefined })
    await container.ended
    const own = path.join(folder, '1')
    expect(textOf(container).trim().split('\n').toSorted()).toEqual([
      'COLOUR=red',
      expect.stringMatching(/^FAKE_KUBERNETES_PROCESSES=\S+$/),
      `HOME=${own}`,
      `PATH=${process.env.PATH}`,
      'SIZE=7',
    ])
    const other = await start(sh('pwd'), { workingDir: undefined })
    await other.ended
    expect(textOf(other)).toBe(`${path.join(folder, '2')}\n`)
  })

  test('finds behind its mounts the folders of this machine', async () => {
    const { folder, volume, start } = await setup()
    const deep = path.join(volume, 'deep')
    await mkdir(deep)
    const mounts = [
      { mountPath: '/workspace', folder: volume },
      { mountPath: '/workspace/cache/', folder: deep },
    ]
    const env = {
      HOME: '/workspace',
      CACHE: '/workspace/cache/x',
      NEAR: '/workspaces',
      OTHER: '/etc/workspace',
      WORDS: 'in /workspace',
    }
    const container = await start(sh('pwd; echo $HOME $CACHE $NEAR $OTHER $WORDS'), {
      env,
      mounts,
      workingDir: '/workspace/a/b',
    })
    await container.ended
    expect(textOf(container)).toBe(
      `${volume}/a/b\n${volume} ${volume}/deep/x /workspaces /etc/workspace in /workspace\n`,
    )
    const unmounted = await start(sh('pwd; echo $HOME; cd'), { env: { HOME: '/root' }, workingDir: '/srv' })
    expect(await unmounted.ended).toMatchObject({ exitCode: 0 })
    expect(textOf(unmounted)).toBe(`${folder}/2/srv\n${folder}/2/root\n`)
  })

  test('takes its own folder with it when it ends, and leaves its volumes', async () => {
    const { folder, volume, start } = await setup()
    const container = await start(sh(`touch ~/own kept; echo done; ${until('go')}`))
    await said(container, 'done')
    expect(await readdir(path.join(folder, '1'))).toEqual(['own'])
    await writeFile(path.join(volume, 'go'), '')
    await container.ended
    expect(await readdir(folder)).toEqual([])
    expect((await readdir(volume)).toSorted()).toEqual(['go', 'kept'])
  })

  test.each([
    ['exit 0', 0, 'Completed'],
    ['exit 3', 3, 'Error'],
    ['kill -9 $$', 137, 'Error'],
    ['kill -TERM $$', 143, 'Error'],
    ['kill -SEGV $$', 139, 'Error'],
  ])('that ends by `%s` says so', async (script, exitCode, reason) => {
    const { start } = await setup()
    const before = Date.now()
    const container = await start(sh(script))
    expect(container.end).toBeUndefined()
    const end = await container.ended
    expect(end).toEqual({ exitCode, reason, startedAt: container.startedAt, finishedAt: expect.any(Date) })
    expect(container.end).toBe(end)
    expect(end.startedAt.getTime()).toBeGreaterThanOrEqual(before)
    expect(end.finishedAt.getTime()).toBeGreaterThanOrEqual(end.startedAt.getTime())
  })

  test.each([
    ['that is not there', ['nonsense'], undefined, 'exec: "nonsense": executable file not found in $PATH'],
    ['that is not there', ['nonsense'], 1 << 30, 'exec: "nonsense": executable file not found in $PATH'],
    ['that is no file', ['/no/such'], undefined, 'exec: "/no/such": stat /no/such: no such file or directory'],
    ['that may not be run', ['./text'], undefined, 'exec: "./text": permission denied'],
    ['that has no name', [], undefined, 'no command specified'],
    ['that is too long', ['true', 'x'.repeat(1 << 20)], undefined, 'E2BIG'],
  ])('whose program is one %s has ended before it began', async (_name, command, memoryBytesMax, message) => {
    const { folder, volume, start } = await setup()
    await writeFile(path.join(volume, 'text'), 'no program')
    await chmod(path.join(volume, 'text'), 0o600)
    const container = await start(command, { memoryBytesMax })
    expect(await container.ended).toMatchObject({
      exitCode: 128,
      reason: 'StartError',
      message: expect.stringContaining(message),
      startedAt: new Date(0),
    })
    expect(container.log.snapshot()).toEqual([])
    expect(await readdir(folder)).toEqual([])
  })

  test('kills all others when its main process ends, wherever they have gone', async () => {
    const { start } = await setup()
    const container = await start(
      sh(`setsid sleep 1000 & (setsid setsid sleep 1000 >/dev/null 2>&1 &) ; (trap "" TERM HUP; sleep 1000 &)
        echo started; ${until('go')}; exit 4`),
    )
    await said(container, 'started')
    const sleeping = await container.exec({ command: ['sleep', '1000'], stdin: false, tty: false })
    for (const output of [sleeping.stdout, sleeping.stderr]) output.resume()
    await expect.poll(() => container.pids.filter((pid) => nameOf(pid) === 'sleep').length).toBeGreaterThanOrEqual(4)
    const pids = container.pids
    await run(container, 'touch go')
    expect(await container.ended).toMatchObject({ exitCode: 4, reason: 'Error' })
    expect(pids.map(stateOf)).toEqual(pids.map(() => undefined))
    expect(container.pids).toEqual([])
    expect(await sleeping.ended).toEqual({ exitCode: 137 })
  })

  test('that is stopped may end in its own way, and those beside it live until then', async () => {
    const { start } = await setup()
    const script = `trap 'kill -0 $child && echo bye; exit 7' TERM; sleep 1000 & child=$!; echo ready; wait`
    const container = await start(sh(script))
    await said(container, 'ready')
    expect(await container.stop(30_000)).toMatchObject({ exitCode: 7, reason: 'Error' })
    expect(textOf(container)).toBe('ready\nbye\n')
    expect(await container.stop(30_000)).toBe(container.end)
    expect(await container.kill('OOMKilled')).toMatchObject({ exitCode: 7, reason: 'Error' })
  })

  test('that does not want to end is killed after its grace, or when somebody is less patient', async () => {
    const { start } = await setup()
    const stubborn = async () => {
      const container = await start(sh(`trap '' TERM; echo ready; while :; do sleep 1; done`))
      await said(container, 'ready')
      return container
    }
    const killed = { exitCode: 137, reason: 'Error' }
    expect(await (await stubborn()).stop(50)).toMatchObject(killed)
    expect(await (await stubborn()).stop(0)).toMatchObject(killed)
    expect(await (await stubborn()).kill()).toMatchObject(killed)
    const container = await stubborn()
    const patient = container.stop(60_000)
    expect(await container.stop(1)).toMatchObject(killed)
    expect(await patient).toBe(container.end)
    expect(await (await stubborn()).kill('OOMKilled')).toMatchObject({ exitCode: 137, reason: 'OOMKilled' })
  })

  test('is killed whole while it starts and loses processes all the time', async () => {
    const { start } = await setup()
    const container = await start(
      sh('echo on; while :; do (setsid sh -c "true & sleep 0.5 &" &) ; true & sleep 0.001; done'),
    )
    await said(container, 'on')
    await expect.poll(() => container.pids.length).toBeGreaterThan(5)
    await container.kill()
    expect(container.pids).toEqual([])
  })
})

describe('a runtime', () => {
  test('has a hundred containers at once, and ends with all of them', async () => {
    const { runtime, folder, start } = await setup()
    const containers = await Promise.all(Array.from({ length: 100 }, () => start(IDLING)))
    await containers[0]?.kill()
    await runtime.stop()
    for (const { end } of containers) expect(end).toMatchObject({ exitCode: 137 })
    expect(containers.flatMap(({ pids }) => pids)).toEqual([])
    expect(existsSync(folder)).toBe(false)
    await runtime.stop()
    await expect(start(IDLING)).rejects.toThrow('has been stopped')
  })

  test('lets nobody have the name of another', async () => {
    const { start } = await setup()
    await start(['true'], { id: 'one' })
    await expect(start(['true'], { id: 'one' })).rejects.toThrow('There was a container one already')
  })
})
