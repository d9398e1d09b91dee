/** On the wire names are snake_case, in the library camelCase. Neither is ever written down twice: one is made from the other. */

type Snake<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${Snake<Rest>}`
  : Name

export function camel(name: string): string {
  return name.replace(/_([a-z])/g, (_all, letter: string) => letter.toUpperCase())
}

/** A value of the library as JSON has it: its names in snake_case, its times as text. What has names of an app's own keeps them. */
export type Wire<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? Wire<Item>[]
    : T extends object
      ? string extends keyof T
        ? T
        : { [Key in keyof T as Snake<Key & string>]: Wire<T[Key]> }
      : T
