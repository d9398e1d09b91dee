import { TREND_KEEP_MS, TREND_MS } from '../src/db/tallies.ts'
import { SECONDS } from '../src/fleet/histogram.ts'
import { describedAs, LABELS, type LabelName, METRICS, type MetricName } from '../src/fleet/metric-table.ts'
import { FLUSH_MS } from '../src/fleet/tally.ts'
import { duration } from '../src/fleet/words.ts'
import { ALERTS, type Alert } from './alerts.ts'

/** `docs/metrics.md`, printed from the tables that the metrics and the alerts are made from. */
export function metricsPage(): string {
  const metrics = (Object.keys(METRICS) as MetricName[]).map((name) => {
    const { type, labels, help } = describedAs(name)
    return `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(', ')} | ${help} |`
  })
  const used = new Set<LabelName>(
    (Object.keys(METRICS) as MetricName[]).flatMap((name) => [...describedAs(name).labels]),
  )
  const labels = [...used].map((label) => `| \`${label}\` | ${valuesOf(label)} |`)
  return `# Metrics and alerts

Printed from \`src/fleet/metric-table.ts\` and \`printed/alerts.ts\`; a test fails when this page is stale.

\`GET /metrics\` of any web process, with a token of the scope \`read\`, tells of the **whole fleet** in Prometheus' text format. Workers
need no port of their own: every process counts what it does, and adds it to the fleet's tallies in the database about every
${duration(FLUSH_MS)} and when it stops. So

- the counters are the fleet's: they go on when processes come and go, and never begin anew;
- every web process tells the same. Scrape one address that reaches any of them, such as a load balancer's or a Service's. Where
  each is scraped by itself, the dashboard and the alerts count one of them (\`max without (instance, pod)\`);
- a process that is killed (SIGKILL, a machine that is gone) has not told of its last ${duration(FLUSH_MS)}: so much is not counted. What is
  in the database is not affected, and the gauges are read from there and from the queue;
- a database that is away is told of by a scrape that fails. What was counted meanwhile is kept, and added when it is back;
- a look costs the database a fixed number of statements, once in a few seconds at most, however many ask.

The console's trends come from the same tallies, kept in parts of ${duration(TREND_MS)} for ${duration(TREND_KEEP_MS)}.

## Setting it up

- \`deploy/prometheus/scrape.example.yaml\`: the scrape, with the token in a file.
- \`deploy/prometheus/alerts.yaml\`: the alerts below (\`rule_files\`).
- \`deploy/grafana/sandman.json\`: a dashboard; import it and pick the Prometheus.

With several fleets in one Prometheus, give each scrape a label of its own (\`labels: { fleet: … }\`).

## Metrics

| name | type | labels | tells |
| --- | --- | --- | --- |
${metrics.join('\n')}

Histograms have the bounds ${SECONDS.join(', ')} seconds.

## Labels

No label is ever an id or a text that somebody has written: there are only so many series. A word that is not known is told as
\`other\`.

| label | says |
| --- | --- |
${labels.join('\n')}

## Alerts

What each means, and what to do about it, is in [operations.md](operations.md).

| alert | severity | after | when |
| --- | --- | --- | --- |
${ALERTS.map(row).join('\n')}
`
}

function valuesOf(label: LabelName): string {
  const values: string | readonly string[] = LABELS[label]
  if (typeof values !== 'string') return values.map((value) => `\`${value}\``).join(', ')
  return label === 'backend' ? 'the name of a backend that a worker was started with' : 'the release'
}

function row({ name, when, forMinutes, severity }: Alert): string {
  const after = forMinutes > 0 ? duration(forMinutes * 60_000) : 'at once'
  return `| [${name}](operations.md#${name.toLowerCase()}) | ${severity} | ${after} | \`${when.replaceAll('|', '\\|')}\` |`
}
