import { expect, onTestFinished, test } from 'vitest'
import { IMAGE } from '../../support/docker/image.ts'
import { CALL, engine, IDLING, newId, onEngine, setup, sh } from './setup.ts'

const owner = () => ({ sandboxId: newId('sbx'), life: newId('op') })

async function makeByHand(more: object = {}): Promise<string> {
  const body = { Image: IMAGE, Entrypoint: IDLING, HostConfig: { NetworkMode: 'none' }, ...more }
  const { Id } = await engine<{ Id: string }>('POST', `/containers/create?name=by-hand-${newId('op')}`, body)
  onTestFinished(() => engine<void>('DELETE', `/containers/${Id}?force=1`).catch(() => {}))
  await engine('POST', `/containers/${Id}/start`)
  return Id
}

onEngine(() => {
  test('a container that somebody else has made is used, put to sleep, woken and ended by its whole id', async () => {
    const bench = await setup()
    const ref = await makeByHand({ Entrypoint: sh('echo hello; exec sleep 1000') })
    await bench.backend.adopt(ref, owner(), CALL)
    const target = await bench.awake(ref)
    expect(await bench.run(target, 'echo inside')).toBe('inside\n')
    let heard = ''
    for await (const { bytes } of bench.backend.attach({ ...target, key: undefined }, undefined, CALL)) {
      heard += Buffer.from(bytes)
      if (heard === 'hello\n') break
    }
    const checkpointRef = await bench.suspend(target)
    expect(await bench.backend.look(ref, CALL)).toEqual({ is: 'suspended', checkpointRef })
    const awake = await bench.resume(ref)
    expect(awake.incarnation).not.toBe(target.incarnation)
    await expect(bench.backend.end(target, CALL)).rejects.toMatchObject({ type: 'overtaken' })
    const disk = await bench.open({ pause: 'disk' })
    await expect(disk.pausing.suspend(awake, { key: newId('op') }, CALL)).rejects.toMatchObject({
      type: 'spec_invalid',
    })
    await bench.backend.end(awake, CALL)
    expect(await bench.backend.look(ref, CALL)).toEqual({ is: 'absent' })
    await expect(bench.backend.adopt(ref, owner(), CALL)).rejects.toMatchObject({ type: 'sandbox_expired' })
  })

  test('it has no labels, so it is in no list, and the place of the lists does not hold it', async () => {
    const { backend } = await setup()
    const ref = await makeByHand()
    const who = owner()
    await backend.adopt(ref, who, CALL)
    expect(await backend.find(who.sandboxId, CALL)).toEqual([])
    expect((await backend.lists.instances(undefined, CALL)).items).toEqual([])
    expect((await backend.lists.place(CALL))?.holds(ref)).toBe(false)
  })

  test('by a part of its id, by its name, and out of another fleet nothing is taken', async () => {
    const bench = await setup()
    const stranger = await setup()
    const ref = await makeByHand()
    const refusal = expect.objectContaining({ type: 'spec_invalid' })
    for (const name of [ref.slice(0, 12), 'by-hand', `${ref}0`, '', '../x'])
      await expect(bench.backend.adopt(name, owner(), CALL)).rejects.toEqual(refusal)
    const theirs = await stranger.create()
    const { Id } = await stranger.inspect(theirs.ref)
    for (const attempt of [
      () => bench.backend.adopt(Id, owner(), CALL),
      () => bench.backend.look(Id, CALL),
      () => bench.backend.end({ ref: Id, incarnation: theirs.incarnation }, CALL),
      () => stranger.backend.adopt(Id, owner(), CALL),
    ])
      await expect(attempt()).rejects.toEqual(refusal)
    expect(await bench.backend.look(theirs.ref, CALL)).toEqual({ is: 'absent' })
    await bench.backend.end({ ref: theirs.ref, incarnation: null }, CALL)
    await stranger.awake(theirs.ref)
  })

  test('one with a terminal has no output that could be told byte by byte, and says so', async () => {
    const bench = await setup()
    const target = await bench.awake(await makeByHand({ Tty: true }))
    await expect(bench.hear({ ...target, key: undefined })).rejects.toMatchObject({
      type: 'spec_invalid',
      message: expect.stringMatching(/terminal/),
    })
  })
})
