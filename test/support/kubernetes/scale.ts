import type { Answer, Api, Asking } from './api.ts'
import { methodNotAllowed } from './api-error.ts'
import { isObject, type KubeObject } from './objects.ts'
import { PATCH_TYPES } from './patches.ts'
import type { Verb } from './routes.ts'
import { shown, type Target } from './target.ts'

/** How many there shall be of something, and nothing else of it. */
export function onScale(api: Api, verb: Verb, target: Target, asking: Asking): Answer {
  const whole = { ...target, subresource: '' }
  if (verb === 'patch' || verb === 'update') {
    const spec = isObject(asking.body) && isObject(asking.body.spec) ? asking.body.spec : {}
    const body = { spec: { replicas: spec.replicas } }
    api.patch(whole, { ...asking, body, contentType: PATCH_TYPES.merge })
  } else if (verb !== 'get') throw methodNotAllowed()
  return { status: 200, object: scaleOf(shown(target, api.find(whole))) }
}

function scaleOf({ metadata, spec, status }: KubeObject): KubeObject {
  const { name, namespace = '', uid, resourceVersion, creationTimestamp } = metadata
  return {
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: { name, namespace, uid, resourceVersion, creationTimestamp },
    spec: { replicas: spec?.replicas },
    status: { replicas: status?.replicas ?? 0, ...(status?.selector !== undefined && { selector: status.selector }) },
  }
}
