/** As much of the format as a small image needs. */
export type TarEntry = { name: string; mode?: number } & ({ folder: true } | { link: string } | { content: Buffer })

const BLOCK = 512

export function tarOf(entries: readonly TarEntry[]): Buffer {
  const blocks = entries.flatMap((entry) => {
    const content = 'content' in entry ? entry.content : Buffer.alloc(0)
    return [headerOf(entry, content.length), content, Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK)]
  })
  return Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)])
}

function headerOf(entry: TarEntry, size: number): Buffer {
  const header = Buffer.alloc(BLOCK)
  const octal = (value: number, at: number, length: number) =>
    header.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at)
  header.write(entry.name, 0)
  octal(entry.mode ?? 0o755, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  octal(size, 124, 12)
  octal(0, 136, 12)
  header.write('link' in entry ? '2' : 'folder' in entry ? '5' : '0', 156)
  if ('link' in entry) header.write(entry.link, 157)
  header.write('ustar\x0000', 257, 'latin1')
  header.write(' '.repeat(8), 148)
  const sum = header.reduce((all, byte) => all + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return header
}
