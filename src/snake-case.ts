/** A name of the library, `sandboxId`, as it is written where names have underscores: `sandbox_id`. */
export function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
