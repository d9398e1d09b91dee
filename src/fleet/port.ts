import { once } from 'node:events'
import net from 'node:net'
import type { Config } from '../config.ts'
import { SandmanError } from '../errors.ts'

type Address = Pick<Config, 'host' | 'port'>

/** Takes the port and lets it go, so that nothing is started in vain for a web process that could not listen. */
export async function assertPortFree({ host, port }: Address): Promise<void> {
  if (port === 0) return // some port always is
  const server = net.createServer()
  try {
    await once(server.listen(port, host), 'listening')
  } catch (error) {
    throw explainListenError(error as NodeJS.ErrnoException, { host, port })
  }
  server.close()
  await once(server, 'close')
}

export function explainListenError(error: NodeJS.ErrnoException, { host, port }: Address): unknown {
  if (error.code === 'EADDRINUSE') {
    return new SandmanError(
      'port_taken',
      `Port ${port} on ${host} is taken by another program: stop it, or set PORT to a free one (PORT=${port + 1}).`,
      { cause: error },
    )
  }
  if (error.code === 'EACCES') {
    return new SandmanError(
      'port_taken',
      `Port ${port} on ${host} may not be used by this user: set PORT to one above 1023.`,
      { cause: error },
    )
  }
  return error
}
