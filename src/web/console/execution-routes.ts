import type { Fleet } from '../../fleet/fleet.ts'
import type { Execution } from '../../fleet/views.ts'
import { executionPage } from './execution.ts'
import { readTail, TAIL_BYTES } from './output.ts'
import type { Pages } from './pages.ts'

/** One execution, what it printed, and the way to end it. */
export function serveExecutions(pages: Pages, fleet: Fleet): void {
  pages.get('/executions/:id', 'read', async (c, view) => {
    const { execution, sandbox } = await fleet.execution(c.req.param('id') ?? '')
    return executionPage(view, { execution, sandbox, tail: await readTail(fleet, execution, TAIL_BYTES) })
  })

  // As a file and nothing else: whatever is in it, no browser makes a page of it.
  pages.get('/executions/:id/output.txt', 'read', async (c) => {
    const { execution } = await fleet.execution(c.req.param('id') ?? '')
    return c.body(printed(fleet, execution), 200, {
      'content-type': 'text/plain; charset=utf-8',
      'content-disposition': `attachment; filename="${execution.id}.txt"`,
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; sandbox",
    })
  })

  pages.post('/executions/:id/cancel', async (c, view) => {
    const { execution } = await fleet.cancel(c.req.param('id') ?? '')
    return c.redirect(view.at(`/executions/${execution.id}`), 303)
  })
}

/** All that is printed by now, as fast as it is read, and no longer than somebody reads. */
function printed(fleet: Fleet, { id, outputBytes }: Execution): ReadableStream<Uint8Array> {
  const pieces = fleet.output(id)[Symbol.asyncIterator]()
  let isRead = outputBytes === 0
  return new ReadableStream({
    async pull(controller) {
      const next = isRead ? undefined : await pieces.next()
      if (!next || next.done) {
        controller.close()
        await pieces.return?.()
        return
      }
      controller.enqueue(next.value.bytes)
      isRead = next.value.to >= outputBytes
    },
    async cancel() {
      await pieces.return?.()
    },
  })
}
