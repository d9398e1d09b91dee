import { ApiError, badRequest, rejectedPatch } from './api-error.ts'
import { isEqual, isObject, type Json } from './objects.ts'

export const PATCH_TYPES = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
} as const

type Operation = { op?: unknown; path?: unknown; value?: unknown; from?: unknown }

/** One after the other, and none of them when one cannot be done. */
export function jsonPatch(target: Json, patch: unknown): Json {
  if (!Array.isArray(patch))
    throw badRequest('error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch')
  const root: Json = { root: structuredClone(target) }
  for (const operation of patch as Operation[]) perform(root, operation)
  return root.root as Json
}

function perform(root: Json, { op, path, value, from }: Operation): void {
  if (typeof path !== 'string') throw rejectedPatch()
  const { parent, key } = locate(root, path)
  switch (op) {
    case 'test':
      if (!isEqual(read(parent, key), value)) throw rejectedPatch()
      return
    case 'add':
      insert(parent, key, value)
      return
    case 'replace':
      if (read(parent, key) === undefined) throw missing(op, path)
      write(parent, key, value)
      return
    case 'remove':
      if (read(parent, key) === undefined) throw missing(op, path)
      drop(parent, key)
      return
    case 'move':
    case 'copy': {
      if (typeof from !== 'string') throw rejectedPatch()
      const source = locate(root, from)
      const moved = read(source.parent, source.key)
      if (moved === undefined) throw missing(op, from)
      if (op === 'move') drop(source.parent, source.key)
      insert(parent, key, structuredClone(moved))
      return
    }
    default:
      throw badRequest(`Unexpected kind: ${String(op)}`)
  }
}

const missing = (op: string, path: string) =>
  new ApiError(
    422,
    'Invalid',
    `the server rejected our request due to an error in our request: ${op} operation does not apply: doc is missing key: ${path}: missing value`,
  )

function locate(root: Json, pointer: string): { parent: Json | unknown[]; key: string } {
  const keys = [
    'root',
    ...pointer
      .split('/')
      .slice(1)
      .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~')),
  ]
  const key = keys.pop() ?? ''
  let parent: unknown = root
  for (const step of keys) {
    parent = Array.isArray(parent) ? parent[Number(step)] : isObject(parent) ? parent[step] : undefined
    if (!isObject(parent) && !Array.isArray(parent)) throw missing('add', pointer)
  }
  return { parent: parent as Json | unknown[], key }
}

function read(parent: Json | unknown[], key: string): unknown {
  return Array.isArray(parent) ? parent[Number(key)] : parent[key]
}

function insert(parent: Json | unknown[], key: string, value: unknown): void {
  if (!Array.isArray(parent)) parent[key] = value
  else parent.splice(key === '-' ? parent.length : Number(key), 0, value)
}

function write(parent: Json | unknown[], key: string, value: unknown): void {
  if (Array.isArray(parent)) parent[Number(key)] = value
  else parent[key] = value
}

function drop(parent: Json | unknown[], key: string): void {
  if (Array.isArray(parent)) parent.splice(Number(key), 1)
  else delete parent[key]
}

/** What is null goes, what is an object is merged, and anything else is replaced. */
export function mergePatch(target: Json, patch: unknown): Json {
  if (!isObject(patch))
    throw badRequest('error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}')
  const merged: Json = { ...target }
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key]
    else if (isObject(value)) merged[key] = mergePatch(isObject(merged[key]) ? merged[key] : {}, value)
    else merged[key] = structuredClone(value)
  }
  return merged
}

/** By which lists of a pod are merged instead of replaced. */
const MERGE_KEYS: Record<string, string> = {
  containers: 'name',
  ownerReferences: 'uid',
  conditions: 'type',
  volumes: 'name',
}

export function strategicMerge(target: Json, patch: unknown): Json {
  if (!isObject(patch))
    throw badRequest('error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}')
  const merged: Json = { ...target }
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key]
    else if (isObject(value)) merged[key] = strategicMerge(isObject(merged[key]) ? merged[key] : {}, value)
    else if (Array.isArray(value)) merged[key] = mergeList(key, (merged[key] ?? []) as unknown[], value)
    else merged[key] = value
  }
  return merged
}

function mergeList(key: string, before: unknown[], patch: unknown[]): unknown[] {
  if (key === 'finalizers') return [...new Set([...before, ...patch])]
  const by = MERGE_KEYS[key]
  if (by === undefined) return structuredClone(patch)
  const merged = [...before]
  for (const one of patch as Json[]) {
    const nth = merged.findIndex((known) => isObject(known) && known[by] === one[by])
    if (nth === -1) merged.push(one)
    else merged[nth] = strategicMerge(merged[nth] as Json, one)
  }
  return merged
}
