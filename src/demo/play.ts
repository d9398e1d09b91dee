import { describeError } from '../errors.ts'
import type { Incident } from './incident.ts'
import { type Act, type Mark, type Show, SIDES, type Side, type Verdict } from './show.ts'
import type { Stage } from './stage.ts'

type PlayOptions = {
  incidents: readonly Incident[]
  show: Show
  stage: Stage
  signal: AbortSignal
  /** All at the same time, when nobody watches: each has a provider of its own. */
  atOnce: boolean
}

/** Plays them, both columns of each at the same time. What goes wrong is part of the show, except that somebody leaves. */
export async function play({ incidents, show, stage, signal, atOnce }: PlayOptions): Promise<void> {
  const playing = incidents.map((incident) => async () => {
    const act = show.acts.find(({ letter }) => letter === incident.letter) as Act
    show.begin(act)
    const scene = (side: Side) => ({
      say(text: string, mark: Mark = 'did') {
        signal.throwIfAborted()
        show.step(act, side, mark, text)
      },
      signal,
    })
    const perform: Record<Side, () => Promise<Verdict>> = {
      usual: () => incident.usual({ ...stage.usual(incident), ...scene('usual') }),
      sandman: () => incident.sandman({ ...stage.sandman(incident), ...scene('sandman') }),
    }
    await Promise.all(
      SIDES.map(async (side) => {
        const verdict = await perform[side]().catch(broken)
        if (!signal.aborted) show.judge(act, side, verdict)
      }),
    )
    signal.throwIfAborted()
  })
  if (atOnce) await Promise.all(playing.map((each) => each()))
  else for (const each of playing) await each()
}

/** Neither failed nor held: nothing was shown. */
function broken(error: unknown): Verdict {
  return { asExpected: false, text: `It could not be played: ${describeError(error)}`, facts: {} }
}
