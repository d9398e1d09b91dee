import { reply } from '../../../../../../lib/project-previews.ts'

export const runtime = 'nodejs'
export const dynamic = 'force-dynamic'

type Context = { params: Promise<{ project: string; verb: string }> }

export async function POST(request: Request, { params }: Context): Promise<Response> {
  const { project, verb } = await params
  if (verb !== 'pause' && verb !== 'rebuild') return new Response(null, { status: 404 })
  return reply(request, (previews, click) => previews[verb](project, click))
}
