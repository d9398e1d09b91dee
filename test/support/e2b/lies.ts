import { asSandbox, newSandboxId, newTemplateId } from './records.ts'
import type { Reply } from './replies.ts'
import type { Route } from './routes.ts'
import { frame, lastFrame, STREAM_HEADERS } from './rpc.ts'

const NOBODY = {
  templateId: 'base',
  alias: undefined,
  metadata: {},
  envs: {},
  autoPause: false,
  autoPauseMemory: true,
  autoResume: false,
}
/** Greater than any that Linux gives. */
const NO_PID = 4_194_305

/** What would be answered if it had been done. */
export function lieOf(route: Route, name: string): Reply {
  switch (route) {
    case 'create':
      return { status: 201, body: asSandbox(newSandboxId(), NOBODY) }
    case 'connect':
      return { status: 201, body: asSandbox(name, NOBODY) }
    case 'snapshot':
      return { status: 201, body: { snapshotID: `${newTemplateId()}:default`, names: [] } }
    case 'list':
    case 'listSnapshots':
      return { status: 200, body: [] }
    case 'listProcesses':
      return { status: 200, body: { processes: [] } }
    case 'signal':
    case 'input':
    case 'closeStdin':
      return { status: 200, body: {} }
    case 'start':
    case 'attach': {
      const end = { exitCode: 0, exited: true, status: 'exit status 0' }
      const events = [{ start: { pid: NO_PID } }, { end }].map((event) => frame({ event }))
      return {
        stream: (response) => response.writeHead(200, STREAM_HEADERS).end(Buffer.concat([...events, lastFrame()])),
      }
    }
    default:
      return { status: 204 }
  }
}
