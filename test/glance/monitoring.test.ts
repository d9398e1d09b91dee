import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { load } from 'js-yaml'
import { expect, test } from 'vitest'
import { ALERTS, alertsFile } from '../../printed/alerts.ts'
import { dashboardFile } from '../../printed/dashboard.ts'
import { metricsPage } from '../../printed/metrics.ts'
import { describedAs, LABELS, type LabelName, METRICS, type MetricName } from '../../src/fleet/metric-table.ts'
import { COUNTING } from '../../src/fleet/tally-rules.ts'

const root = path.resolve(import.meta.dirname, '../..')

test('docs/metrics.md, the alerts and the dashboard are what the tables say', async () => {
  await expect(metricsPage()).toMatchFileSnapshot('../../docs/metrics.md')
  await expect(alertsFile()).toMatchFileSnapshot('../../deploy/prometheus/alerts.yaml')
  await expect(dashboardFile()).toMatchFileSnapshot('../../deploy/grafana/sandman.json')
})

type Rule = { alert: string; expr: string; for: string; labels: object; annotations: Record<string, string> }

test('the alerts are YAML that says the same', () => {
  const { groups } = load(alertsFile()) as { groups: { rules: Rule[] }[] }
  const rules = groups.flatMap((group) => group.rules)
  expect(rules.map(({ alert, expr }) => [alert, expr])).toEqual(ALERTS.map(({ name, when }) => [name, when]))
  for (const { annotations } of rules)
    expect(annotations).toEqual({
      summary: expect.any(String),
      description: expect.any(String),
      runbook: expect.any(String),
    })
})

test('every alert is explained where its runbook points', async () => {
  const page = await readFile(path.join(root, 'docs/operations.md'), 'utf8')
  for (const { name } of ALERTS) {
    expect(alertsFile()).toContain(`runbook: docs/operations.md#${name.toLowerCase()}\n`)
    expect(metricsPage()).toContain(`(operations.md#${name.toLowerCase()})`)
    expect(page).toContain(`\n### ${name}\n`)
  }
})

const panels = (
  JSON.parse(dashboardFile()) as { panels: { title: string; targets?: { expr: string; legendFormat?: string }[] }[] }
).panels

test('the alerts and the dashboard ask for metrics, labels and words that there are', () => {
  const asked = [
    ...ALERTS.map(({ name, when, summary }) => [name, when, summary] as const),
    ...panels.flatMap(({ title, targets = [] }) =>
      targets.map(({ expr, legendFormat = '' }) => [title, expr, legendFormat] as const),
    ),
  ]
  expect(asked.length).toBeGreaterThan(40)
  for (const [name, expression, told] of asked) expect([name, problemsOf(expression, told)]).toEqual([name, []])
})

test('an expression that asks for something else is noticed', () => {
  expect(problemsOf('sum by (kind) (sandman_sandboxes{state="runing",colour="red"})', '{{ $labels.kind }}')).toEqual(
    [
      'sandman_sandboxes has no label kind',
      'state is never runing',
      'sandman_sandboxes has no label colour',
      'kind is told and not there',
    ].toSorted(),
  )
  expect(problemsOf('rate(sandman_nothing_total[5m])', '')).toEqual(['there is no sandman_nothing_total'])
  expect(problemsOf('sum(rate(sandman_jobs_total[5m])', '')).toEqual(['brackets do not match'])
})

test('every metric is on the dashboard or in an alert, but for those that only explain others', () => {
  const all = [
    ...ALERTS.map(({ when }) => when),
    ...panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
  ].join('\n')
  const unused = Object.keys(METRICS).filter((name) => !new RegExp(`\\b${name}(_bucket)?\\b`).test(all))
  expect(unused).toEqual(['sandman_invariant_violations_total', 'sandman_requests_failed_total', 'sandman_build_info'])
})

test('every counter and every histogram is counted from some event', () => {
  const anything = new Proxy({}, { get: () => 1 })
  const counted = new Set(Object.values(COUNTING).flatMap((rule) => rule(anything).map(({ name }) => name)))
  const names = (Object.keys(METRICS) as MetricName[]).filter((name) => describedAs(name).type !== 'gauge')
  expect(names.filter((name) => !counted.has(name))).toEqual([])
})

test('the example of a scrape is what the alerts expect', async () => {
  const text = await readFile(path.join(root, 'deploy/prometheus/scrape.example.yaml'), 'utf8')
  const { scrape_configs: scrapes, rule_files: files } = load(text) as {
    scrape_configs: { job_name: string }[]
    rule_files: string[]
  }
  expect(scrapes.map(({ job_name }) => job_name)).toEqual(['sandman'])
  expect(files).toEqual(['alerts.yaml'])
})

/** All that is wrong with an expression, as far as the table of metrics knows. */
function problemsOf(expression: string, told: string): string[] {
  const problems = new Set<string>()
  if (expression.split('(').length !== expression.split(')').length) problems.add('brackets do not match')
  const labels = new Set<string>()
  for (const [, name = '', inner = ''] of expression.matchAll(/\b(sandman_\w+)(?:\{([^}]*)\})?/g)) {
    const metric = name in METRICS ? name : name.replace(/_(bucket|sum|count)$/, '')
    if (!(metric in METRICS) || (describedAs(metric as MetricName).type === 'histogram') === (metric === name)) {
      problems.add(`there is no ${name}`)
      continue
    }
    const known: readonly string[] = describedAs(metric as MetricName).labels
    for (const label of known) labels.add(label)
    if (metric !== name) labels.add('le')
    for (const [, label = '', operator = '', value = ''] of inner.matchAll(/(\w+)(=~|!~|!=|=)"([^"]*)"/g)) {
      if (!known.includes(label)) problems.add(`${metric} has no label ${label}`)
      else
        for (const word of operator.endsWith('~') ? value.split('|') : [value])
          checkWord(label as LabelName, word, problems)
    }
    // What is summed by a label that one of its metrics does not have loses it.
    for (const by of groupings(expression))
      if (!known.includes(by) && by !== 'le') problems.add(`${metric} has no label ${by}`)
  }
  const grouped = groupings(expression)
  for (const [, label = ''] of told.matchAll(/\{\{\s*(?:with )?(?:\$labels\.)?(\w+)\s*\}\}/g))
    if (
      !labels.has(label) ||
      (grouped.length > 0 && !grouped.includes(label)) ||
      (grouped.length === 0 && /\bsum\(/.test(expression))
    )
      problems.add(`${label} is told and not there`)
  return [...problems].toSorted()
}

function checkWord(label: LabelName, word: string, problems: Set<string>): void {
  const words: string | readonly string[] = LABELS[label]
  if (word !== '' && typeof words !== 'string' && !words.includes(word)) problems.add(`${label} is never ${word}`)
}

function groupings(expression: string): string[] {
  return [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, inner = '']) =>
    inner.split(',').map((label) => label.trim()),
  )
}
