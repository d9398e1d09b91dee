/** A process of its own that owns an embedded Postgres, to be killed by a test. */
import { startEmbeddedPostgres } from '../../src/embedded/postgres.ts'

const { url, service } = await startEmbeddedPostgres({ folder: process.argv[2] as string })
process.send?.({ url, pid: service.pid })
setInterval(() => {}, 60_000)
