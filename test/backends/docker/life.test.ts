import { expect, test } from 'vitest'
import { listInstances } from '../../../src/backends/docker/lists.ts'
import { CALL, engine, gated, IDLING, imagesOf, newId, onEngine, openEngine, setup, sh, wantedOf } from './setup.ts'

onEngine(() => {
  test('a sandbox needs an image, and a command that is there; what is refused says so', async () => {
    const { backend } = await setup()
    const refused = (spec: object) => expect(backend.create(wantedOf(spec), CALL)).rejects
    await refused({ template: undefined }).toMatchObject({
      type: 'spec_invalid',
      message: expect.stringMatching(/`template`/),
    })
    await refused({ template: 'Not An Image' }).toMatchObject({ type: 'spec_invalid' })
    await refused({ limits: { memoryBytesMax: 1 << 20 } }).toMatchObject({
      type: 'spec_invalid',
      message: expect.stringMatching(/6MB/),
    })
  })

  test('a command that there is not has ended as in a shell, and its output says of what', async () => {
    const { backend, hear } = await setup()
    const { ref } = await backend.create(wantedOf({ agent: { command: ['/no/such/program'] } }), CALL)
    await expect
      .poll(() => backend.look(ref, CALL))
      .toMatchObject({ is: 'lost', why: expect.stringMatching(/exit code 127/) })
    const { State, Id } = await engine<{ State: { StartedAt: string }; Id: string }>('GET', `/containers/${ref}/json`)
    const incarnation = `${Id.slice(0, 12)}.${State.StartedAt.replace(/\W/g, '')}`
    expect((await hear({ ref, incarnation, key: undefined })).toString()).toMatch(/no\/such\/program/)
    await backend.end({ ref, incarnation: null }, CALL)
    expect(await backend.look(ref, CALL)).toEqual({ is: 'absent' })
  })

  test('walls and limits are really there, in the agent and beside it', async () => {
    const bench = await setup()
    const target = await bench.create({
      agent: { command: IDLING, env: { TOKEN: 'a secret' }, sidecar: { command: IDLING, env: { OTHER: 'b' } } },
      limits: { memoryBytesMax: 64 << 20, cpusMax: 0.5 },
      readOnlyRoot: true,
    })
    const said = await bench.run(
      target,
      'grep -E "CapEff|CapBnd|NoNewPrivs" /proc/self/status; touch /x 2>&1; touch /tmp/y && echo wrote; echo $TOKEN$OTHER; ls -a /tmp',
    )
    expect(said).toMatch(/CapBnd:\s0{16}\nCapEff:|CapEff:\s0{16}/)
    expect(said).toMatch(/NoNewPrivs:\s1/)
    expect(said).toMatch(/Read-only file system/)
    expect(said).toMatch(/wrote\na secret\n/)
    for (const { Id } of await bench.containers()) {
      const { HostConfig } = await engine<{ HostConfig: object }>('GET', `/containers/${Id}/json`)
      expect(HostConfig).toMatchObject({
        Memory: 64 << 20,
        MemorySwap: 64 << 20,
        NanoCpus: 500_000_000,
        PidsLimit: 4_096,
        ReadonlyRootfs: true,
        CapDrop: ['ALL'],
        RestartPolicy: { Name: 'no' },
      })
    }
  })

  test('what was made and not started is finished by whoever asks again, and not by a look', async () => {
    const bench = await setup()
    const { ref, wanted } = await bench.create({ agent: { command: IDLING, sidecar: { command: IDLING } } })
    const agent = await bench.inspect(ref)
    const Labels = { ...(agent as unknown as { Config: { Labels: object } }).Config.Labels }
    for (const { Id } of await bench.containers()) await engine('DELETE', `/containers/${Id}?force=1`)
    await engine('POST', `/containers/create?name=${ref}`, {
      Image: agent.Image,
      Entrypoint: IDLING,
      Labels,
      HostConfig: agent.HostConfig,
    })
    expect(await bench.backend.look(ref, CALL)).toMatchObject({ is: 'changing' })
    expect(await bench.backend.find(wanted.sandboxId, CALL)).toEqual([{ ref, life: wanted.life }])
    expect(await bench.backend.create(wanted, CALL)).toEqual({ ref })
    await bench.awake(ref)
    expect((await bench.containers()).map(({ State }) => State)).toEqual(['running', 'running'])
  })

  test('an agent that ends at once is run once, however many ask for it at once', async () => {
    const bench = await setup()
    const wanted = wantedOf({ agent: { command: sh('echo once') } })
    const workers = [bench.backend, bench.backend, await bench.open(), await bench.open()]
    const [{ ref } = expect.unreachable()] = await Promise.all(workers.map((backend) => backend.create(wanted, CALL)))
    await expect
      .poll(() => bench.backend.look(ref, CALL))
      .toMatchObject({ is: 'lost', why: expect.stringMatching(/exit code 0/) })
    const log = await engine<undefined>('GET', `/containers/${(await bench.inspect(ref)).Id}/logs?stdout=1`).catch(
      String,
    )
    expect(String(log).match(/once/g)).toHaveLength(1)
  })

  test('with its agent ends the sandbox: it is lost, says of what, and its output is there until it is ended', async () => {
    const bench = await setup()
    const command = gated('echo last words; exit 4')
    const target = await bench.create({ agent: { command, sidecar: { command: IDLING } } })
    const agent = { ...target, key: undefined }
    await bench.go(target)
    await expect
      .poll(() => bench.backend.look(target.ref, CALL))
      .toMatchObject({ is: 'lost', why: expect.stringMatching(/exit code 4, but its sidecar still runs/) })
    const [listed] = (await bench.backend.lists.instances(undefined, CALL)).items
    expect(listed).toEqual({ ref: target.ref, ...ownerOf(target.wanted), isLost: true })
    expect(await bench.backend.agentStatus(agent, CALL)).toEqual({
      is: 'terminated',
      exitCode: 4,
      signal: null,
      oomKilled: false,
    })
    expect((await bench.hear(agent)).toString()).toBe('last words\n')
    await expect(bench.backend.run(target, 'true', CALL)).rejects.toMatchObject({ type: 'sandbox_expired' })
    await bench.backend.end({ ref: target.ref, incarnation: null }, CALL)
    expect(await bench.containers()).toEqual([])
    await expect(bench.hear(agent)).rejects.toMatchObject({ type: 'sandbox_expired' })
  })

  test('what is on another engine is somewhere, and not gone', async () => {
    const { backend, fleet } = await setup()
    const ref = `sandman-00000000-${fleet}-${newId('op')}`
    for (const attempt of [
      () => backend.look(ref, CALL),
      () => backend.end({ ref, incarnation: null }, CALL),
      () => backend.snapshots !== 'none' && backend.snapshots.verify(`${ref}.snapshot-op_1`, CALL),
    ])
      await expect(attempt()).rejects.toMatchObject({
        type: 'sandbox_unreachable',
        message: expect.stringMatching(/another Docker engine/),
      })
    expect((await backend.lists.place(CALL))?.holds(ref)).toBe(false)
  })

  test('what somebody makes by hand, with the labels of a sandbox or from its snapshot, is not the sandbox', async () => {
    const bench = await setup()
    const target = await bench.create()
    await bench.snapshots.take(target, { key: newId('op'), name: 'by hand' }, CALL)
    const [image] = await imagesOf(bench)
    const { Config } = (await bench.inspect(target.ref)) as unknown as { Config: { Labels: object } }
    const copies = [
      { Image: image?.Id, Entrypoint: IDLING },
      { Image: image?.Id, Entrypoint: IDLING, Labels: Config.Labels },
    ]
    const made = await Promise.all(copies.map((copy) => engine<{ Id: string }>('POST', '/containers/create', copy)))
    expect((await bench.backend.lists.instances(undefined, CALL)).items.map(({ ref }) => ref)).toEqual([target.ref])
    expect(await bench.awake(target.ref)).toEqual({ ref: target.ref, incarnation: target.incarnation })
    await bench.backend.end(target, CALL)
    for (const { Id } of made) await engine('DELETE', `/containers/${Id}`)
    expect(await bench.backend.look(target.ref, CALL)).toEqual({ is: 'absent' })
  })

  test('lists come in pages, in the order of their names', async () => {
    const bench = await setup()
    const refs = await Promise.all(Array.from({ length: 3 }, async () => (await bench.create()).ref))
    const home = { fleet: bench.fleet, engine: (await bench.backend.lists.place(CALL))?.name ?? '' }
    const site = { engine: await openEngine(), home }
    const pages: string[] = []
    for (let cursor: string | undefined, asked = 0; asked < 3; asked++) {
      const { items, next } = await listInstances(site, cursor, CALL, 1)
      pages.push(...items.map(({ ref }) => ref))
      expect(next).toBe(asked < 2 ? items[0]?.ref : undefined)
      cursor = next
    }
    expect(pages).toEqual(refs.toSorted())
  })
})

const ownerOf = ({ sandboxId, life }: { sandboxId: string; life: string }) => ({ sandboxId, life })
