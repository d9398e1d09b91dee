import type { ServerResponse } from 'node:http'
import type { Answer, Api, Asking } from './api.ts'
import { ApiError, badRequest, methodNotAllowed } from './api-error.ts'
import { fullJson } from './json.ts'
import type { Kubelet } from './kubelet.ts'
import type { Lists } from './lists.ts'
import { findLog, logOptions } from './log-requests.ts'
import type { LogStreams } from './log-streams.ts'
import { isObject, type Json, type KubeObject } from './objects.ts'
import { failure, json, type Reply } from './reply.ts'
import type { Verb } from './routes.ts'
import { onScale } from './scale.ts'
import type { Target } from './target.ts'
import type { Watches } from './watches.ts'

/** Who does what is asked for. */
export type Hands = {
  api: Api
  lists: Lists
  watches: Watches
  logs: LogStreams
  kubelet: Kubelet
  nowMs: () => number
  goneAs: 'event' | 'http'
  /** Somebody wants something of a pod that may stand still. */
  wake: (podUid: string) => void
}

/** Failures are answers too. */
export function perform(hands: Hands, verb: Verb, target: Target, asking: Asking): Reply {
  try {
    return target.subresource === '' || target.subresource === 'status'
      ? onObjects(hands, verb, target, asking)
      : onSubresource(hands, verb, target, asking)
  } catch (error) {
    if (error instanceof ApiError) return failure(error)
    throw error
  }
}

function onObjects({ api, lists, watches, goneAs }: Hands, verb: Verb, target: Target, asking: Asking): Reply {
  const { query } = asking
  switch (verb) {
    case 'get':
      return answer(api.get(target))
    case 'list':
      return json(200, lists.page(target, query))
    case 'watch': {
      if (target.name !== '') query.append('fieldSelector', `metadata.name=${target.name}`)
      return { stream: watches.begin(target, query, goneAs) }
    }
    case 'create':
      if (target.name !== '' || (target.resource.isNamespaced && target.namespace === undefined))
        throw methodNotAllowed()
      return answer(api.create(target, asking))
    case 'update':
      return answer(api.update(target, asking))
    case 'patch':
      return answer(api.patch(target, asking))
    case 'delete':
      return answer(api.delete(target, asking))
    case 'deletecollection':
      return answer(api.deleteCollection(target, asking))
  }
}

function onSubresource({ api, logs, kubelet, nowMs }: Hands, verb: Verb, target: Target, asking: Asking): Reply {
  const object = api.find(target)
  switch (target.subresource) {
    case 'scale':
      return answer(onScale(api, verb, target, asking))
    case 'log': {
      if (verb !== 'get') throw methodNotAllowed()
      const options = logOptions(asking.query, nowMs())
      const log = findLog(object, kubelet.worker(object.metadata.uid), asking.query)
      return { stream: (response: ServerResponse) => logs.serve(log, options, response) }
    }
    case 'eviction': {
      if (verb !== 'create') throw methodNotAllowed()
      const { deleteOptions } = isObject(asking.body) ? asking.body : {}
      api.delete({ ...target, subresource: '' }, { ...asking, body: deleteOptions ?? {} })
      return json(201, JSON.stringify({ kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', code: 201 }))
    }
    default:
      throw badRequest('Upgrade request required')
  }
}

function answer({ status, object }: Answer): Reply {
  return json(status, isKubeObject(object) ? fullJson(object) : JSON.stringify(object))
}

function isKubeObject(object: KubeObject | Json): object is KubeObject {
  return isObject(object.metadata) && object.metadata.uid !== undefined
}
