import { openFleet } from './fleet.ts'
import { answer, type Preview, previewsOf } from './previews.ts'

type Previews = ReturnType<typeof previewsOf>

/** What a route answers a page with. `work` is given the previews, and the key of the click. */
export async function reply(
  request: Request,
  work: (previews: Previews, click?: string) => Promise<Preview>,
): Promise<Response> {
  const previews = previewsOf(openFleet().fleet)
  const { status, body } = await answer(() => work(previews, request.headers.get('idempotency-key') ?? undefined))
  return Response.json(body, { status })
}
