import type { Cause } from './api-error.ts'
import { isObject, type KubeObject } from './objects.ts'

const LABEL = /^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$/
const DNS_LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const ANNOTATIONS_BYTES_MAX = 262_144

export const isDnsLabel = (text: unknown) => typeof text === 'string' && text.length <= 63 && DNS_LABEL.test(text)

export const required = (field: string): Cause => ({ reason: 'FieldValueRequired', message: 'Required value', field })

export const invalidValue = (field: string, value: unknown, why: string): Cause => ({
  reason: 'FieldValueInvalid',
  message: `Invalid value: ${JSON.stringify(value)}: ${why}`,
  field,
})

export const notSupported = (field: string, value: unknown, supported: readonly string[]): Cause => ({
  reason: 'FieldValueNotSupported',
  message: `Unsupported value: ${JSON.stringify(value)}: supported values: ${supported.map((one) => `"${one}"`).join(', ')}`,
  field,
})

export const forbiddenField = (field: string, why: string): Cause => ({
  reason: 'FieldValueForbidden',
  message: `Forbidden: ${why}`,
  field,
})

/** What holds for every object. */
export function checkMetadata({ metadata }: KubeObject): Cause[] {
  const causes: Cause[] = []
  const { name, labels = {}, annotations = {} } = metadata
  if (name.length > 253 || !SUBDOMAIN.test(name))
    causes.push(
      invalidValue(
        'metadata.name',
        name,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
      ),
    )
  for (const [key, value] of Object.entries(labels)) {
    if (!isQualified(key))
      causes.push(invalidValue('metadata.labels', key, 'name part must consist of alphanumeric characters'))
    if (typeof value !== 'string' || value.length > 63)
      causes.push(invalidValue('metadata.labels', value, 'must be no more than 63 bytes'))
    else if (!LABEL.test(value))
      causes.push(
        invalidValue(
          'metadata.labels',
          value,
          "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'",
        ),
      )
  }
  let bytes = 0
  for (const [key, value] of Object.entries(annotations)) {
    if (!isQualified(key.toLowerCase()))
      causes.push(invalidValue('metadata.annotations', key, 'name part must consist of alphanumeric characters'))
    bytes += Buffer.byteLength(key) + Buffer.byteLength(String(value))
  }
  if (bytes > ANNOTATIONS_BYTES_MAX)
    causes.push({
      reason: 'FieldValueTooLong',
      message: `Too long: may not be more than ${ANNOTATIONS_BYTES_MAX} bytes`,
      field: 'metadata.annotations',
    })
  return causes
}

function isQualified(key: string): boolean {
  const parts = key.split('/')
  const name = parts.pop() ?? ''
  const [prefix] = parts
  if (parts.length > 1 || (prefix !== undefined && (prefix.length > 253 || !SUBDOMAIN.test(prefix)))) return false
  return name.length > 0 && name.length <= 63 && LABEL.test(name)
}

export function listAt(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}

export function objectAt(value: unknown): Record<string, unknown> {
  return isObject(value) ? value : {}
}
