import net from 'node:net'

/** Below those that the system gives to whoever connects: Linux begins with 32768, others later. */
const STEADY = [12_000, 32_000] as const
const TRIES = 100

/**
 * A free port for a server that will be away for moments and comes back to it. One that the system also gives to clients could be
 * taken meanwhile: even by somebody who connects to that very port, and then speaks with himself.
 */
export async function findSteadyPort(): Promise<number> {
  const [least, most] = STEADY
  for (let tries = 0; tries < TRIES; tries++) {
    const port = least + Math.floor(Math.random() * (most - least))
    if (await isFree(port)) return port
  }
  throw new Error(`There is no free port between ${least} and ${most}.`)
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = net.createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
