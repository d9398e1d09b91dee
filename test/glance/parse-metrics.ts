type ParsedMetric = { name: string; type: string; help: string; samples: ParsedSample[] }
type ParsedSample = { name: string; labels: Record<string, string>; value: number }

const SAMPLE = /^([a-z_]+)(?:\{(.*)\})? (-?[\d.e+-]+|\+Inf|NaN)$/
const LABEL = /([a-z_]+)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)/y

/** Reads the text format as strictly as Prometheus does: each line is one of three, in order, and nothing is left over. */
export function parseMetrics(text: string) {
  if (!text.endsWith('\n')) throw new Error('the last line has no end')
  const metrics: ParsedMetric[] = []
  for (const line of text.slice(0, -1).split('\n')) {
    const [, word, name = '', rest = ''] = /^# (HELP|TYPE) ([a-z_]+) (.*)$/.exec(line) ?? []
    const current = metrics.at(-1)
    if (word === 'HELP') metrics.push({ name, help: rest, type: '', samples: [] })
    else if (word === 'TYPE' && current?.name === name && current.type === '') current.type = rest
    else if (current) current.samples.push(parseSample(line, current))
    else throw new Error(`this line belongs to nothing: ${line}`)
  }
  const samples = metrics.flatMap((metric) => metric.samples)
  const value = (name: string, labels: Record<string, string> = {}) =>
    samples.find((sample) => sample.name === name && isSame(sample.labels, labels))?.value
  return { metrics, samples, value }
}

function parseSample(line: string, { name: of, type }: ParsedMetric): ParsedSample {
  const [, name = '', inner = '', value] = SAMPLE.exec(line) ?? []
  const allowed = type === 'histogram' ? [`${of}_bucket`, `${of}_sum`, `${of}_count`] : [of]
  if (!allowed.includes(name)) throw new Error(`this line cannot be read, or does not belong to ${of}: ${line}`)
  const labels: Record<string, string> = {}
  LABEL.lastIndex = 0
  let read = 0
  for (let match = LABEL.exec(inner); match; match = LABEL.exec(inner)) {
    labels[match[1] as string] = (match[2] as string).replace(/\\([\\"n])/g, (_, escaped) =>
      escaped === 'n' ? '\n' : escaped,
    )
    read = LABEL.lastIndex
  }
  if (read !== inner.length) throw new Error(`these labels cannot be read: ${inner}`)
  return { name, labels, value: Number(value === '+Inf' ? Number.POSITIVE_INFINITY : value) }
}

function isSame(a: Record<string, string>, b: Record<string, string>): boolean {
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name])
}
