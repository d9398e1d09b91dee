import type { Verb } from './routes.ts'

/** What was asked, in the order in which it came. */
export type Asked = {
  method: string
  path: string
  query: URLSearchParams
  /** Undefined for what is about no objects. */
  verb: Verb | undefined
  group: string
  /** With its subresource, as `pods/log`. */
  resource: string
  namespace: string | undefined
  name: string
  at: number
  headers: NodeJS.Dict<string | string[]>
  body: unknown
  /** By WebSocket. Of an exec this is a `get`, and since 1.35 a `create` as well. */
  isUpgrade: boolean
  /** Undefined as long as there is no answer. */
  status: number | undefined
}

export class Requests extends Array<Asked> {
  clear(): void {
    this.length = 0
  }

  count(verb: Verb, resource: string): number {
    return this.filter((one) => one.verb === verb && one.resource === resource).length
  }
}
