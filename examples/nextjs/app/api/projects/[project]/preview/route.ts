import { reply } from '../../../../../lib/project-previews.ts'

export const runtime = 'nodejs'
export const dynamic = 'force-dynamic'

type Context = { params: Promise<{ project: string }> }

/** Before these, your app checks that the project is theirs who ask: Sandman does not know your users. */
export async function GET(request: Request, { params }: Context): Promise<Response> {
  const { project } = await params
  return reply(request, (previews) => previews.look(project))
}

/** Answered when it is awake, or after half a minute: a host that ends requests sooner has to be told so (`maxDuration`). */
export async function POST(request: Request, { params }: Context): Promise<Response> {
  const { project } = await params
  return reply(request, (previews, click) => previews.open(project, click))
}
