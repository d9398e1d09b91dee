import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import type { Counted } from './faulty-way.ts'
import type { ProviderOrder } from './provider-process.ts'

const PROCESS = path.join(import.meta.dirname, 'provider-process.ts')

/** Where it is, as workers know it, and as those do who want the truth. */
type Place = { url: string; directUrl: string; apiKey: string }

/** A remote provider, over HTTP, that fails and hangs when it is told to. What it has, it never loses. */
export class Provider {
  readonly place: Place
  readonly #child: ChildProcess

  private constructor(child: ChildProcess, place: Place) {
    this.#child = child
    this.place = place
  }

  static async start(env: Record<string, string>): Promise<Provider> {
    const child = fork(PROCESS, [], { env, execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    const [place] = (await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(([code]) => Promise.reject(new Error(`The provider did not start: ${code}`))),
    ])) as [Place]
    return new Provider(child, place)
  }

  setWeather(isOn: boolean, seed: number): void {
    this.#tell({ kind: 'weather', isOn, seed })
  }

  away(forMs: number): void {
    this.#tell({ kind: 'away', forMs })
  }

  /** How many calls it had, and what became of them on their way. */
  async counted(): Promise<Counted> {
    const told = once(this.#child, 'message')
    this.#tell({ kind: 'count' })
    const [{ counted }] = (await told) as [{ counted: Counted }]
    return counted
  }

  /** An honest answer of its own API. */
  async ask(method: string, route: string, body?: unknown): Promise<{ status: number; body: unknown; next?: string }> {
    const { directUrl, apiKey } = this.place
    const response = await fetch(`${directUrl}${route}`, {
      method,
      headers: { 'x-api-key': apiKey, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const next = response.headers.get('x-next-token')
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text), ...(next && { next }) }
  }

  #tell(order: ProviderOrder): void {
    this.#child.send(order)
  }
}
