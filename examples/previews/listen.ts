import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Listens, and says where. Of a port that is taken one sentence says what to do, which a stack would hide. */
export async function listen(server: Server, port: number): Promise<Server> {
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    console.error(`Port ${port} is taken by another program: stop it, or choose another port (PORT=${port + 1}).`)
    process.exit(1)
  }
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  return server
}
