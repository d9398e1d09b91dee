import type { FakeAgent } from './agent.ts'

/** What may happen to a stream that began well: after so many bytes it is reset, ends as if there were no more, or hangs. */
type StreamFault = { afterBytes: number; afterMs?: number; how: 'reset' | 'end' | 'hang' }

type FakePage = { items: { ref: string }[]; next: string | null }

export const HONEST = {
  losesCheckpoints: false,
  thawsWithoutCheckpoint: false,
  neverReady: false,
  verifiesUntilReady: 0,
  ttlMsMax: Number.POSITIVE_INFINITY,
  runs: (command: string): { exitCode: number; output: string } => ({
    exitCode: 0,
    output: command.includes('awake') ? 'awake\n' : '',
  }),
  previewStatus: 200,
  starts: (_agent: FakeAgent): void => {},
  breaksStreams: (_from: number): StreamFault | undefined => undefined,
  tellsTotals: true,
  shows: (_ref: string): boolean => true,
  turnsPages: (page: FakePage): FakePage => page,
  failsFor: (_ref: string): boolean => false,
  pageSize: 100,
}

/** Ways to lie and to disappoint. */
export class Conduct {
  /** A suspend that says it worked, and keeps no checkpoint. */
  losesCheckpoints = HONEST.losesCheckpoints
  /** What it makes never gets ready. */
  neverReady = HONEST.neverReady
  /** It still has the memory of what it suspended, and wakes it without looking at the checkpoint. */
  thawsWithoutCheckpoint = HONEST.thawsWithoutCheckpoint
  /** A checkpoint that is there only after it was asked about so often. */
  verifiesUntilReady = HONEST.verifiesUntilReady
  /** Longer than this it lets nobody live. */
  ttlMsMax = HONEST.ttlMsMax
  /** What a command inside ends with. */
  runs = HONEST.runs
  /** What listens inside answers with this. */
  previewStatus = HONEST.previewStatus

  /** What an agent does as soon as it was started. */
  starts = HONEST.starts
  /** How a stream breaks that was attached from this byte on. */
  breaksStreams = HONEST.breaksStreams
  /** With the output of an agent that has ended, how long that is. */
  tellsTotals = HONEST.tellsTotals

  /** Whether a list shows it. What it does not show is there all the same. */
  shows = HONEST.shows
  pageSize = HONEST.pageSize
  /** Of these, single looks fail. */
  failsFor = HONEST.failsFor
  /** What becomes of a page before it is sent. */
  turnsPages = HONEST.turnsPages
}
