import { badRequest } from './api-error.ts'
import type { KubeObject } from './objects.ts'

export type Selector = (object: KubeObject) => boolean

/** Both selectors of a request as one. */
export function selectorOf(query: URLSearchParams): Selector | undefined {
  const labels = query.get('labelSelector') ?? ''
  const fields = query.get('fieldSelector') ?? ''
  if (labels === '' && fields === '') return undefined
  const all = [...parseLabels(labels), ...parseFields(fields)]
  return (object) => all.every((one) => one(object))
}

const NAME = '[A-Za-z0-9._/-]+'
const VALUE = '[A-Za-z0-9._-]*'
const EQUALITY = new RegExp(`^\\s*(${NAME})\\s*(==|=|!=)\\s*(${VALUE})\\s*$`)
const MEMBERSHIP = new RegExp(`^\\s*(${NAME})\\s+(in|notin)\\s+\\(([^)]*)\\)\\s*$`)
const PRESENCE = new RegExp(`^\\s*(!?)\\s*(${NAME})\\s*$`)

function parseLabels(text: string): Selector[] {
  // A comma between brackets belongs to its set.
  const terms = text.split(/,(?![^(]*\))/).filter((term) => term.trim() !== '')
  return terms.map((term) => {
    const labelled =
      (name: string, test: (value: string | undefined) => boolean): Selector =>
      ({ metadata }) =>
        test(metadata.labels?.[name])
    const [, key, operator, wanted] = term.match(EQUALITY) ?? []
    if (key !== undefined) return labelled(key, (value) => (value === wanted) === (operator !== '!='))
    const [, member, membership, list = ''] = term.match(MEMBERSHIP) ?? []
    if (member !== undefined) {
      const values = list.split(',').map((value) => value.trim())
      return labelled(member, (value) => (value !== undefined && values.includes(value)) === (membership === 'in'))
    }
    const [, not, present] = term.match(PRESENCE) ?? []
    if (present !== undefined) return labelled(present, (value) => (value !== undefined) === (not === ''))
    throw badRequest(`unable to parse requirement: found '${term}', expected: !, identifier, or 'end of string'`)
  })
}

const FIELDS: Record<string, (object: KubeObject) => unknown> = {
  'metadata.name': ({ metadata }) => metadata.name,
  'metadata.namespace': ({ metadata }) => metadata.namespace,
  'status.phase': ({ status }) => status?.phase,
  'spec.nodeName': ({ spec }) => spec?.nodeName ?? '',
}

function parseFields(text: string): Selector[] {
  const terms = text.split(',').filter((term) => term.trim() !== '')
  return terms.map((term) => {
    const [, name = '', operator, wanted] = term.match(/^\s*([\w.]+)\s*(==|=|!=)\s*(.*?)\s*$/) ?? []
    const field = FIELDS[name]
    if (!field)
      throw badRequest(
        `Unable to find "/v1, Resource=" that match label selector "", field selector "${term}": field label not supported: ${name || term}`,
      )
    return (object) => (field(object) === wanted) === (operator !== '!=')
  })
}
