import {
  CompiledQuery,
  isOperationNodeSource,
  type OperationNode,
  type QueryResult,
  RawNode,
  sql,
  ValueNode,
} from 'kysely'
import type { Db } from './pool.ts'

/**
 * Like `sql`, for what a process asks many times a second: the text is put together once, and from then on only the values are
 * collected. Parts that were written with `sql` may be put in; the text must not vary with the values.
 */
export function statement<Row>(
  texts: TemplateStringsArray,
  ...parts: unknown[]
): { execute(db: Db): Promise<QueryResult<Row>> } {
  return {
    async execute(db) {
      const { shape, values } = new Reading(texts, parts)
      shape.text ??= sql(texts, ...parts).compile(db).sql
      return db.executeQuery<Row>(CompiledQuery.raw(shape.text, values))
    },
  }
}

/** What a statement looks like up to one of its gaps, and what it may look like after it: a value is there, or another text. */
type Shape = { text?: string; withValue?: Shape; withTexts?: WeakMap<readonly string[], Shape> }

const NOTHING: Shape = {}

/** A template has the very same array of texts each time it is come across: they are recognized, and not read. */
class Reading {
  shape = NOTHING
  readonly values: unknown[] = []

  constructor(texts: readonly string[], parts: readonly unknown[]) {
    this.#addTexts(texts)
    for (const part of parts) {
      if (isOperationNodeSource(part)) this.#addNode(part.toOperationNode())
      else this.#addValue(part)
    }
  }

  #addNode(node: OperationNode): void {
    if (RawNode.is(node)) {
      this.#addTexts(node.sqlFragments)
      for (const parameter of node.parameters) this.#addNode(parameter)
    } else if (ValueNode.is(node) && !node.immediate) this.#addValue(node.value)
    else throw new Error(`a ${node.kind} cannot be part of a statement: its text may vary`)
  }

  #addTexts(texts: readonly string[]): void {
    this.shape.withTexts ??= new WeakMap()
    const shape = this.shape.withTexts.get(texts) ?? {}
    this.shape.withTexts.set(texts, shape)
    this.shape = shape
  }

  #addValue(value: unknown): void {
    this.values.push(value)
    this.shape.withValue ??= {}
    this.shape = this.shape.withValue
  }
}
