import { html } from 'hono/html'
import { layout } from '../console/layout.ts'
import type { View } from '../console/view.ts'
import type { OpenApi, Operation, Parameter, Schema } from './openapi.ts'

/** The document as a page, for people. */
export function referencePage(view: View, { info, paths, components }: OpenApi) {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  )
  return layout(view, {
    title: 'HTTP API',
    place: 'reference',
    content: html`<div class="reference">
      <div class="head"><h1>HTTP API</h1></div>
      <p>${info.description} Release ${info.version}. For programs: <a href="${view.at('/openapi.json')}">openapi.json</a>.</p>
      <ul class="card list" aria-label="Everything that can be asked for">
        ${operations.map(
          ({ path, method, operation }) =>
            html`<li><a href="#${operation.operationId}"><code>${method} ${path}</code></a> <span class="muted">${operation.summary}</span></li>`,
        )}
      </ul>
      ${operations.map(operationSection)}
      ${Object.entries(components.schemas).map(
        ([name, schema]) =>
          html`<section class="card" id="${name}"><header><h2>${name}</h2></header>${fieldTable(name, schema)}</section>`,
      )}
    </div>`,
  })
}

function operationSection({ path, method, operation }: { path: string; method: string; operation: Operation }) {
  const { operationId, summary, description, parameters, requestBody, responses } = operation
  const bodies = Object.values(requestBody?.content ?? {}).flatMap(({ schema }) => schema.anyOf ?? [schema])
  return html`
      <section class="card" id="${operationId}">
        <header><h2><code>${method} ${path}</code></h2></header>
        <div class="pad"><p>${summary}. Needs the scope <code>${operation['x-scope']}</code>.</p>
        ${description === undefined ? '' : html`<p>${prose(description)}</p>`}</div>
        ${parameters.length === 0 ? '' : parameterTable(parameters)}
        ${bodies.map((schema) => fieldTable((schema as Schema).title ?? 'Body', schema as Schema))}
        <table>
          <caption>Answers</caption>
          <thead><tr><th scope="col">status</th><th scope="col">means</th><th scope="col">body</th></tr></thead>
          <tbody>
            ${Object.entries(responses).map(
              ([status, { description, content }]) =>
                html`<tr><th scope="row">${status}</th><td>${description}</td><td>${Object.entries(content ?? {}).map(
                  ([type, { schema }]) => html`${typeOf(schema)} <code>${type}</code>`,
                )}</td></tr>`,
            )}
          </tbody>
        </table>
      </section>`
}

function parameterTable(parameters: Parameter[]) {
  return html`<table>
          <caption>Parameters</caption>
          <thead><tr><th scope="col">name</th><th scope="col">what it is</th></tr></thead>
          <tbody>
            ${parameters.map(
              ({ name, in: place, description, schema }) =>
                html`<tr><th scope="row"><code>${breakable(name)}</code> (${place})</th><td>${told(schema)} ${prose(description ?? '')}</td></tr>`,
            )}
          </tbody>
        </table>`
}

function fieldTable(caption: string, schema: Schema): ReturnType<typeof html> | '' {
  const fields = fieldsOf(schema)
  if (fields.length === 0) return ''
  return html`<table>
          <caption>${caption}</caption>
          <thead><tr><th scope="col">field</th><th scope="col">what it is</th></tr></thead>
          <tbody>
            ${fields.map(
              ({ name, schema, isRequired }) =>
                html`<tr><th scope="row"><code>${breakable(name)}</code>${isRequired ? '' : ' (optional)'}</th><td>${told(schema)}</td></tr>`,
            )}
          </tbody>
        </table>`
}

type Field = { name: string; schema: Schema; isRequired: boolean }

/** Those that are needed first; and those within others, too, by their whole names. */
function fieldsOf(schema: Schema, within = ''): Field[] {
  const isRequired = (name: string) => schema.required?.includes(name) ?? false
  const names = Object.keys(schema.properties ?? {})
  const needed = names.filter(isRequired)
  return [...needed, ...names.filter((name) => !needed.includes(name))].flatMap((name) => {
    const field = schema.properties?.[name] as Schema
    const whole = `${within}${name}`
    const items = field.items as Schema | undefined
    const inner = items?.properties ? fieldsOf(items, `${whole}[].`) : fieldsOf(field, `${whole}.`)
    return [{ name: whole, schema: field, isRequired: isRequired(name) }, ...inner]
  })
}

function told(schema: Schema) {
  const bounds = [
    ...(schema.minimum === undefined ? [] : [`from ${schema.minimum}`]),
    ...(schema.maximum === undefined ? [] : [`to ${schema.maximum}`]),
    ...(schema.maxLength === undefined ? [] : [`${schema.maxLength} characters at most`]),
    ...(schema.maxItems === undefined ? [] : [`${schema.maxItems} at most`]),
    ...(schema.default === undefined ? [] : [`defaults to ${JSON.stringify(schema.default)}`]),
  ]
  return html`${typeOf(schema)}${bounds.length === 0 ? '' : `, ${bounds.join(', ')}`}. ${prose(schema.description ?? '')}`
}

function typeOf(schema: Schema): ReturnType<typeof html> | string {
  if (schema.$ref !== undefined) {
    const name = schema.$ref.replace(/^.*\//, '')
    return html`<a href="#${name}">${name}</a>`
  }
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(', ')
  const either = schema.anyOf as Schema[] | undefined
  if (either) return html`${either.map((each, nth) => html`${nth === 0 ? '' : ' or '}${typeOf(each)}`)}`
  if (schema.type === 'array') return html`list of ${typeOf((schema.items ?? {}) as Schema)}`
  return typeof schema.type === 'string' ? schema.type : 'anything'
}

/** On a phone, a long name goes on in the next line where one of its words ends. */
function breakable(name: string) {
  return html`${name.split(/(?<=[._-])/).map((word, nth) => (nth === 0 ? word : html`<wbr>${word}`))}`
}

/** Sentences with names between backticks. */
function prose(text: string) {
  return html`${text.split('`').map((part, nth) => (nth % 2 === 1 ? html`<code>${part}</code>` : part))}`
}
