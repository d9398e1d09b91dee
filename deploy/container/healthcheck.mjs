// What the image is asked for its health. A web process has to answer; of a worker, which listens on no port, nothing could be asked
// that a restart would mend: it is well for as long as it runs.

import { readFileSync } from 'node:fs'

const words = readFileSync('/proc/1/cmdline', 'utf8').split('\0')
if (words.includes('web')) {
  const { PORT = '3000' } = process.env
  const { ok } = await fetch(`http://127.0.0.1:${PORT}/healthz`).catch(() => ({ ok: false }))
  process.exitCode = ok ? 0 : 1
}
