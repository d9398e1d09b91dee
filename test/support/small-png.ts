import { crc32, deflateSync, inflateSync } from 'node:zlib'

const SIGNATURE = Buffer.from('89504e470d0a1a0a', 'hex')
const COLOURS_MAX = 256
/** Colours that nobody can tell apart are one. */
const ALIKE = 60

/** The same picture with a palette, which for pages of text is a third of the size and looks the same. For pictures as Chromium writes them. */
export function smallPng(png: Buffer): Buffer {
  const { width, height, channels, data } = unpack(png)
  const pixels = unfilter(inflateSync(data), { width, height, channels })
  const colours = new Map<number, number>()
  const colourAt = (at: number) =>
    ((pixels[at] as number) << 16) | ((pixels[at + 1] as number) << 8) | (pixels[at + 2] as number)
  for (let at = 0; at < pixels.length; at += channels) colours.set(colourAt(at), (colours.get(colourAt(at)) ?? 0) + 1)
  const palette = paletteOf(colours)
  const nearest = new Map([...colours.keys()].map((colour) => [colour, nearestIn(palette, colour)]))

  const rows = Buffer.alloc(height * (width + 1)) // a byte before each row says that it is not filtered
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      rows[y * (width + 1) + 1 + x] = nearest.get(colourAt((y * width + x) * channels)) as number
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, 3, 0, 0, 0], 8)
  const entries = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]))
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', head),
    chunk('PLTE', entries),
    chunk('IDAT', deflateSync(rows, { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

/** The most frequent ones, of those that differ. */
function paletteOf(colours: Map<number, number>): number[] {
  const palette: number[] = []
  for (const [colour] of [...colours].sort((a, b) => b[1] - a[1])) {
    if (palette.length === COLOURS_MAX) break
    if (palette.every((known) => distance(known, colour) > ALIKE)) palette.push(colour)
  }
  return palette
}

function nearestIn(palette: number[], colour: number): number {
  let best = 0
  for (const [nth, known] of palette.entries())
    if (distance(known, colour) < distance(palette[best] as number, colour)) best = nth
  return best
}

function distance(a: number, b: number): number {
  return ((a >> 16) - (b >> 16)) ** 2 + (((a >> 8) & 255) - ((b >> 8) & 255)) ** 2 + ((a & 255) - (b & 255)) ** 2
}

function unpack(png: Buffer): { width: number; height: number; channels: number; data: Buffer } {
  const parts: Buffer[] = []
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
    const from = at + 8
    if (png.toString('latin1', at + 4, from) === 'IDAT') parts.push(png.subarray(from, from + png.readUInt32BE(at)))
  }
  const channels = png[25] === 6 ? 4 : 3
  return { width: png.readUInt32BE(16), height: png.readUInt32BE(20), channels, data: Buffer.concat(parts) }
}

/** Each row was written as the difference to what is left of it and above it. */
function unfilter(
  rows: Buffer,
  { width, height, channels }: { width: number; height: number; channels: number },
): Buffer {
  const stride = width * channels
  const pixels = Buffer.alloc(height * stride)
  for (let y = 0; y < height; y++) {
    const filter = rows[y * (stride + 1)]
    for (let x = 0; x < stride; x++) {
      const left = x < channels ? 0 : (pixels[y * stride + x - channels] as number)
      const above = y === 0 ? 0 : (pixels[(y - 1) * stride + x] as number)
      const corner = x < channels || y === 0 ? 0 : (pixels[(y - 1) * stride + x - channels] as number)
      const guesses = [0, left, above, (left + above) >> 1, paeth(left, above, corner)]
      pixels[y * stride + x] = (rows[y * (stride + 1) + 1 + x] as number) + (guesses[filter as number] as number)
    }
  }
  return pixels
}

function paeth(left: number, above: number, corner: number): number {
  const [a, b, c] = [Math.abs(above - corner), Math.abs(left - corner), Math.abs(left + above - 2 * corner)]
  return a <= b && a <= c ? left : b <= c ? above : corner
}

function chunk(name: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(name, 'latin1'), data])
  const framed = Buffer.alloc(named.length + 8)
  framed.writeUInt32BE(data.length, 0)
  named.copy(framed, 4)
  framed.writeUInt32BE(crc32(named), named.length + 4)
  return framed
}
