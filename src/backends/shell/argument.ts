/** Linux takes so many bytes for one argument, and a NUL behind them. */
export const ARGUMENT_BYTES_MAX = 131_071

/** So many that a script stays below one argument, also when all of them are quotes, and the script itself is quoted again. */
const PIECE_CHARS = 8_000

/** Cut where no character is cut in two. At least one piece. */
export function piecesOf(text: string): string[] {
  const pieces: string[] = []
  let at = 0
  do {
    let end = at + PIECE_CHARS
    if (isFirstHalf(text.charCodeAt(end - 1))) end++
    pieces.push(text.slice(at, end))
    at = end
  } while (at < text.length)
  return pieces
}

function isFirstHalf(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff
}
