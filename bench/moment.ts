/** Milliseconds since some moment that all processes of a machine share, so that what one has begun may end in another. */
export function moment(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
