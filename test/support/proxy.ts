import net from 'node:net'

/**
 * A TCP proxy in front of Postgres or Redis that can misbehave as networks do.
 *
 * - `cut` ends every connection with a reset; new ones work.
 * - `refuse` cuts, and takes no new connections.
 * - `reset` cuts, and resets new connections as soon as they come, which can be waited for.
 * - `hang` keeps connections open, and lets no byte through: what a dead host looks like.
 * - `heal` ends all of that.
 */
export type FaultyProxy = {
  port: number
  cut(): void
  refuse(): Promise<void>
  reset(): void
  /** Resolves once so many connections have been reset since `reset`. */
  resets(times: number): Promise<void>
  hang(): void
  /** Resolves once something was said since `hang`, and not let through. */
  swallowed(): Promise<void>
  heal(): Promise<void>
  close(): Promise<void>
}

export async function startProxy(targetUrl: string): Promise<FaultyProxy & { url: string }> {
  const target = new URL(targetUrl)
  const pairs = new Set<[net.Socket, net.Socket]>()
  let hanging = false
  let hasSwallowed = false
  let resetting = false
  let resets = 0
  const changed = new EventTarget()

  const server = net.createServer((client) => {
    if (resetting) {
      client.on('error', () => {})
      client.resetAndDestroy()
      resets++
      changed.dispatchEvent(new Event('reset'))
      return
    }
    const upstream = net.connect(Number(target.port), target.hostname)
    const pair: [net.Socket, net.Socket] = [client, upstream]
    pairs.add(pair)
    const end = () => {
      pairs.delete(pair)
      client.destroy()
      upstream.destroy()
    }
    for (const [from, to] of [pair, [upstream, client]] as const) {
      from.on('data', (bytes) => {
        if (!hanging) return to.write(bytes)
        hasSwallowed = true
        changed.dispatchEvent(new Event('swallowed'))
      })
      from.on('error', end)
      from.on('close', end)
    }
  })
  await listen(server, 0)
  const { port } = server.address() as net.AddressInfo

  const cut = () => {
    for (const [client, upstream] of pairs) {
      client.resetAndDestroy()
      upstream.destroy()
    }
  }
  const refuse = async () => {
    if (server.listening) {
      const closed = new Promise((resolve) => server.close(resolve))
      cut()
      await closed
    }
  }
  const proxied = new URL(targetUrl)
  proxied.host = `127.0.0.1:${port}`
  return {
    url: proxied.toString(),
    port,
    cut,
    refuse,
    reset() {
      resetting = true
      resets = 0
      cut()
    },
    async resets(times) {
      while (resets < times) await new Promise((resolve) => changed.addEventListener('reset', resolve, { once: true }))
    },
    hang() {
      hanging = true
      hasSwallowed = false
    },
    async swallowed() {
      if (!hasSwallowed) await new Promise((resolve) => changed.addEventListener('swallowed', resolve, { once: true }))
    },
    async heal() {
      resetting = false
      if (hanging) {
        hanging = false
        cut() // bytes were lost; what comes next on such a connection would make no sense
      }
      if (!server.listening) await listen(server, port)
    },
    close: refuse,
  }
}

function listen(server: net.Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => resolve())
  })
}
