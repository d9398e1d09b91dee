import type { Agent, Backend, BackendErrorType, Sighting } from '../backends/backend.ts'
import { fails, givenUp, holds, is } from './assertions.ts'
import { type Awake, type Bench, call, gated, IDLING, newId, sh, until } from './bench.ts'
import type { Case, Wired } from './subject.ts'
import type { Suite } from './suite.ts'
import type { Wire, WireFault } from './wire.ts'

/** Answers that come from somebody who is not the provider, or from a provider that has trouble of its own. */
const ANSWERS: [name: string, fault: WireFault, types: BackendErrorType[]][] = [
  ['a gateway that knows no such page', answer(404, 'text/plain', '404 page not found'), ['sandbox_unreachable']],
  ['a gateway that says so in HTML', answer(404, 'text/html', '<h1>Not Found</h1>'), ['sandbox_unreachable']],
  ['a 404 that says nothing', answer(404, 'text/plain', ''), ['sandbox_unreachable']],
  [
    'a 404 in JSON that names no sandbox',
    answer(404, 'application/json', '{"message":"page not found"}'),
    ['sandbox_unreachable'],
  ],
  ['an internal error', answer(500, 'text/plain', 'oops'), ['sandbox_unreachable']],
  ['a bad gateway', answer(502, 'text/html', '<h1>Bad Gateway</h1>'), ['sandbox_unreachable']],
  ['a service that is not there', answer(503, 'text/plain', 'try later'), ['sandbox_unreachable', 'rate_limited']],
  ['a gateway that waited too long', answer(504, 'text/plain', 'timeout'), ['sandbox_unreachable']],
  ['a page of somebody else', answer(200, 'text/html', '<h1>Welcome</h1>'), ['sandbox_unreachable']],
  [
    'no credentials',
    answer(401, 'application/json', '{"code":401,"message":"unauthorized"}'),
    ['provider_unauthorized'],
  ],
  [
    'too many requests',
    answer(429, 'application/json', '{"code":429,"message":"slow down"}'),
    ['rate_limited', 'sandbox_unreachable'],
  ],
  ['a connection that is reset', { kind: 'cut' }, ['sandbox_unreachable']],
]

/** Compared byte by byte, because a cut may go through a character. */
const OUTPUT = Buffer.from('one\ntwo ü\nthree\nfour, without an end').toString('latin1')

/** What happens between a backend and its provider. Nothing of it may be taken for the end of a sandbox. */
export function wireCases(suite: Suite): Case[] {
  const { wire: wired } = suite.subject
  if (!wired) return []
  const { wire } = wired
  const own = (tries: Record<string, (bench: Bench, backend: Backend) => Promise<void>>) =>
    suite.own(
      'wire',
      mapped(tries, (attempt) => (bench) => throughWire(wired, bench, attempt)),
    )
  const shared = (tries: Record<string, (bench: Bench, backend: Backend, target: Awake) => Promise<void>>) =>
    suite.shared(
      'wire',
      mapped(
        tries,
        (attempt) => (bench, target) => throughWire(wired, bench, (_, backend) => attempt(bench, backend, target)),
      ),
    )

  return [
    ...ANSWERS.flatMap(([name, fault, types]) =>
      shared({
        async [`Met by ${name}, no call takes a sandbox for gone, and each says ${types.join(' or ')} (incident K)`](
          bench,
          backend,
          target,
        ) {
          const calls = everyCall(bench, backend, target)
          wire.fail(fault)
          for (const [method, attempt] of Object.entries(calls)) {
            const before = wire.met
            const outcome = attempt()
            await outcome.catch(() => {})
            if (wire.met === before) continue // it needed nobody
            await fails(`${method}, met by ${name},`, types, outcome)
          }
          wire.heal()
          is('what runs after all of them', await bench.awake(target.ref), target)
        },
      }),
    ),
    ...shared({
      async 'A call that is not answered can be given up, and fails with the reason (incident N)'(
        bench,
        backend,
        target,
      ) {
        for (const [method, attempt] of Object.entries(everyCall(bench, backend, target))) {
          const reason = new Error('given up')
          const abort = new AbortController()
          wire.fail({ kind: 'hang' })
          const outcome = attempt({ signal: abort.signal })
          const over = outcome.then(
            () => true,
            () => true,
          )
          const isOver = await Promise.race([wire.struck().then(() => false), over])
          abort.abort(reason)
          if (!isOver) await givenUp(method, outcome, reason)
          wire.heal()
        }
        is('what runs after all of them', await bench.awake(target.ref), target)
      },
      async 'A stream that breaks fails by itself, and no other with it (incident U)'(bench, backend, target) {
        const agent = await bench.start(target, sh('echo one; exec sleep 1000'))
        wire.fail({ kind: 'cut after', bytes: 1 })
        await Promise.all(Array.from({ length: 5 }, () => hearUntilItBreaks(backend, agent)))
        wire.heal()
        await until('it is heard again', async () => {
          const { heard } = await hearUntilItBreaks(backend, agent, 'one\n') // a client may still have a connection that is dead
          return heard === 'one\n' || undefined
        })
      },
    }),
    ...own({
      async 'One that was made, and whose answer was lost, is found by its label, and made once (incident P)'(
        bench,
        backend,
      ) {
        const wanted = bench.wanted()
        wire.fail({ kind: 'lost answer' }, ({ method }) => method !== 'GET')
        await fails('create, whose answer was lost,', 'sandbox_unreachable', backend.create(wanted, call()))
        wire.heal()
        const found = await bench.find(wanted.sandboxId)
        const { ref } = await backend.create(wanted, call())
        const others = found.filter((each) => each !== ref)
        is('what find shows besides that which create, asked again, has answered,', others, [])
        await bench.run(await bench.awake(ref), 'true')
        is('find after create was asked again', await bench.find(wanted.sandboxId), [ref])
      },

      async 'Whichever answer is lost while one is made, it is made once, and all that it was to be made with runs (incident P)'(
        bench,
        backend,
      ) {
        const { sidecar } = suite.subject.claims
        const agent = { command: IDLING, ...(sidecar !== 'none' && { sidecar: { command: IDLING } }) }
        for (let nth = 1; nth <= REQUESTS_TRIED; nth++) {
          const wanted = bench.wanted({ agent })
          const before = wire.met
          wire.fail({ kind: 'lost answer' }, only(nth))
          await backend
            .create(wanted, call())
            .catch((error: unknown) =>
              fails(`create, whose answer ${nth} was lost,`, 'sandbox_unreachable', Promise.reject(error)),
            )
          wire.heal()
          const { ref } = await backend.create(wanted, call())
          const target = await bench.awake(ref)
          const after = `after a create whose answer ${nth} was lost, and another one,`
          is(`find ${after}`, await bench.find(wanted.sandboxId), [ref])
          const status = await bench.backend.agentStatus({ ...target, key: undefined }, call())
          is(`agentStatus ${after}`, status, { is: 'running' })
          if (sidecar !== 'none') is(`whether the sidecar lives ${after}`, await sidecar.isAlive(ref), true)
          if (wire.met === before) break // it needed fewer, so nothing more can be lost
        }
      },

      ...Object.fromEntries(
        LATER.map(([name, fault, types]) => [
          `Met by ${name} at any request of a call, that is said, or the call has done what it was to do`,
          (bench: Bench, backend: Backend) => meetAtAnyRequest(bench, backend, wire, fault, types),
        ]),
      ),

      async 'What was done, and whose answer was lost, is done when it is asked for again'(bench, backend) {
        const target = await bench.create()
        const lost = async (method: string, attempt: () => Promise<unknown>) => {
          wire.fail({ kind: 'lost answer' }, ({ method }) => method !== 'GET')
          await attempt().catch((error: unknown) =>
            fails(`${method}, whose answer was lost,`, 'sandbox_unreachable', Promise.reject(error)),
          )
          wire.heal()
          await attempt()
        }
        const key = newId('exe')
        await lost('startAgent', () => backend.startAgent(target, { key, command: sh('echo once >> starts') }, call()))
        await bench.end({ ...target, key })
        is('how often startAgent, asked again, has started it', await bench.run(target, 'cat starts'), 'once\n')
        await lost('stopAgent', () => backend.stopAgent({ ...target, key }, call()))
        const { pausing, snapshots } = backend
        if (snapshots !== 'none') {
          const asked = { key: newId('op'), name: undefined }
          await lost('take', () => snapshots.take(target, asked, call()))
          const taken = (await bench.checkpoints()).filter(({ kind }) => kind === 'snapshot')
          is('how many snapshots take, asked again, has made', taken.length, 1)
        }
        let awake = target
        if (pausing !== 'none') {
          await lost('suspend', () => pausing.suspend(target, { key: newId('op') }, call()))
          const checkpointRef = await bench.suspend(target)
          const asked = { key: newId('op'), ttlMs: 600_000 }
          await lost('resume', () => pausing.resume({ ref: target.ref, checkpointRef }, asked, call()))
          awake = await bench.awake(target.ref)
        }
        await lost('end', () => backend.end(awake, call()))
        is('look after end, asked again,', await bench.look(target.ref), { is: 'absent' })
      },

      async 'An output that is cut after any number of bytes goes on from its cursor, losing and doubling nothing (incident R)'(
        bench,
        backend,
      ) {
        const script = `printf '${Buffer.from(OUTPUT, 'latin1')}'`
        const own = await bench.create({ agent: { command: gated(script) } })
        await bench.go(own)
        const byKey = await bench.start(await bench.create(), sh(script))
        for (const agent of [{ ...own, key: undefined }, byKey]) {
          for await (const { heard } of hearing(bench.backend, agent)) if (heard === OUTPUT) break
          const before = wire.requests
          for await (const _ of hearing(backend, agent)) break
          const needed = wire.requests - before
          // Whoever attaches may look first: so that the answer is met that the output comes in, each of them is cut in its turn.
          for (let spared = 0; spared < needed; spared++)
            for (let cut = 1; cut < 2_000; cut *= 11) {
              wire.fail({ kind: 'cut after', bytes: cut }, allAfter(spared))
              const { heard, cursor } = await hearUntilItBreaks(backend, agent)
              wire.heal()
              let whole = heard
              if (heard !== OUTPUT)
                for await (const rest of hearing(backend, agent, cursor)) {
                  whole = heard + rest.heard
                  if (whole.length >= OUTPUT.length) break
                }
              is(`what attach tells in all, cut after ${cut} bytes and ${spared} requests,`, whole, OUTPUT)
              if (heard === OUTPUT) break // nothing is left to be cut
            }
        }
      },
    }),
  ]
}

/** Most calls look before they act, so a fault may meet the look, or what comes after it. */
const REQUESTS_TRIED = 4
const LATER = ANSWERS.filter(([name]) => /knows no such page|reset/.test(name)).concat([
  ['nobody who answers', { kind: 'hang' }, []],
])

/** Only the request of this number, counted from now. */
function only(nth: number): () => boolean {
  let count = 0
  return () => ++count === nth
}

/** All but the first so many, counted from now. */
function allAfter(count: number): () => boolean {
  let nth = 0
  return () => ++nth > count
}

async function meetAtAnyRequest(
  bench: Bench,
  backend: Backend,
  wire: Wire,
  fault: WireFault,
  types: BackendErrorType[],
) {
  let target = await bench.create()
  const done = new Set<string>()
  for (let nth = 1; nth <= REQUESTS_TRIED; nth++) {
    if ((await bench.look(target.ref)).is === 'absent') target = await bench.create()
    const agent = await bench.start(target, sh('echo here; exec sleep 1000'))
    for (const method of Object.keys(everyCall(bench, backend, target, agent.key))) {
      if (done.has(method)) continue
      const attempt = everyCall(bench, backend, target, agent.key)[method] as Attempt
      const reason = new Error('given up')
      const abort = new AbortController()
      const before = wire.met
      wire.fail(fault, only(nth))
      const outcome = attempt({ signal: AbortSignal.any([abort.signal, call().signal]) })
      outcome.catch(() => {})
      if (fault.kind === 'hang') void wire.struck().then(() => abort.abort(reason))
      const failed = await outcome.then(
        () => undefined,
        (error: unknown) => error ?? new Error('undefined was thrown'),
      )
      wire.heal()
      if (wire.met === before) {
        done.add(method) // it needed fewer, and has no later request either
        target = await wakeAgain(bench, target) // what it did is done all the same
        continue
      }
      const where = `${method}, met at its request ${nth},`
      if (failed !== undefined && fault.kind === 'hang') await givenUp(where, outcome, reason)
      else if (failed !== undefined) await fails(where, types, outcome)
      else await assertDone(bench, method, { ...target, key: agent.key }, await outcome, where)
      target = await wakeAgain(bench, target)
    }
  }
}

/** A call that has answered well although one of its requests did not: then it is true what it says. */
async function assertDone(
  bench: Bench,
  method: string,
  agent: Awake & { key: string },
  answer: unknown,
  where: string,
) {
  const after = `after ${where} which answered well,`
  if (method === 'end') is(`look ${after}`, (await bench.look(agent.ref)).is, 'absent')
  if (method === 'look') is(where, (answer as Sighting).is, 'running')
  if (method === 'suspend') is(`look ${after}`, (await bench.look(agent.ref)).is, 'suspended')
  if (method === 'agentStatus') is(where, answer, { is: 'running' })
  if (method === 'stopAgent')
    is(`agentStatus ${after}`, (await bench.backend.agentStatus(agent, call())).is, 'terminated')
}

/** Half a pause may have put it to sleep. What has been ended is not there any more, and nothing comes after that. */
async function wakeAgain(bench: Bench, target: Awake): Promise<Awake> {
  const seen = await bench.look(target.ref)
  if (seen.is === 'suspended') return bench.resume(target.ref, seen.checkpointRef)
  return seen.is === 'running' ? { ref: target.ref, incarnation: seen.incarnation } : target
}

function mapped<T, U>(tries: Record<string, T>, change: (attempt: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(tries).map(([name, attempt]) => [name, change(attempt)]))
}

async function throughWire(
  { open, wire }: Wired,
  bench: Bench,
  attempt: (bench: Bench, backend: Backend) => Promise<void>,
): Promise<void> {
  const backend = await open(bench.fleet)
  try {
    await attempt(bench, backend)
  } finally {
    wire.heal()
    await backend.close()
  }
}

type Attempt = (given?: { signal: AbortSignal }) => Promise<unknown>

/** Every call there is, in an order in which none stands in the way of the next one; each may come to nothing. */
function everyCall(bench: Bench, backend: Backend, target: Awake, key = newId('exe')): Record<string, Attempt> {
  const agent = { ...target, key }
  const { pausing, snapshots, lease, lists } = backend
  const { checkpoints } = lists
  const keeper = pausing === 'none' ? snapshots : pausing
  return {
    find: (given = call()) => backend.find(newId('sbx'), given),
    create: (given = call()) => backend.create(bench.wanted(), given),
    adopt: (given = call()) => backend.adopt(target.ref, { sandboxId: newId('sbx'), life: newId('op') }, given),
    look: (given = call()) => backend.look(target.ref, given),
    run: (given = call()) => backend.run(target, 'true', given),
    startAgent: (given = call()) => backend.startAgent(target, { key: newId('exe'), command: ['true'] }, given),
    agentStatus: (given = call()) => backend.agentStatus(agent, given),
    attach: async (given = call()) => {
      for await (const piece of backend.attach(agent, undefined, given)) return piece
    },
    previewUrl: (given = call()) => backend.previewUrl(target.ref, 8080, given),
    stopAgent: (given = call()) => backend.stopAgent(agent, given),
    endLingering: (given = call()) => backend.endLingering(target, given),
    place: (given = call()) => lists.place(given),
    instances: (given = call()) => lists.instances(undefined, given),
    ...(checkpoints !== 'none' && { checkpoints: (given = call()) => checkpoints(undefined, given) }),
    ...(keeper !== 'none' && { verify: (given = call()) => keeper.verify(`${target.ref}@nothing`, given) }),
    ...(lease !== 'none' && { lease: (given = call()) => lease.set(target, 600_000, given) }),
    ...(snapshots !== 'none' && {
      take: (given = call()) => snapshots.take(target, { key: newId('op'), name: undefined }, given),
    }),
    ...(pausing !== 'none' && {
      suspend: (given = call()) => pausing.suspend(target, { key: newId('op') }, given),
      resume: (given = call()) =>
        pausing.resume({ ref: target.ref, checkpointRef: undefined }, { key: newId('op'), ttlMs: 600_000 }, given),
    }),
    end: (given = call()) => backend.end(target, given),
  }
}

/** What was heard so far, after every piece. */
async function* hearing(backend: Backend, agent: Agent, from?: string) {
  let heard = Buffer.alloc(0)
  for await (const { bytes, cursor, isLast } of backend.attach(agent, from, call())) {
    heard = Buffer.concat([heard, bytes])
    // Its own word, and not that of whoever is on the way.
    if (isLast)
      holds(
        'attach called a piece the last that is not the end of the output',
        heard.toString('latin1').endsWith(OUTPUT.slice(-heard.length)),
      )
    yield { heard: heard.toString('latin1'), cursor }
  }
}

async function hearUntilItBreaks(
  backend: Backend,
  agent: Agent,
  whole = OUTPUT,
): Promise<{ heard: string; cursor?: string }> {
  let last: { heard: string; cursor?: string } = { heard: '' }
  try {
    for await (last of hearing(backend, agent)) if (last.heard === whole) break
  } catch (error) {
    await fails('attach, whose connection was cut,', 'sandbox_unreachable', Promise.reject(error))
  }
  return last
}

function answer(status: number, type: string, body: string): WireFault {
  return { kind: 'answer', status, type, body }
}
