type Pull = 'pulled' | { reason: 'InvalidImageName'; message: string } | { reason: 'ErrImagePull'; message: string }

const REFERENCE =
  /^(?<name>(?:[a-zA-Z0-9.-]+(?::\d+)?\/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)(?::(?<tag>\w[\w.-]{0,127}))?(?:@(?<digest>sha256:[a-f0-9]{64}))?$/

/** As containerd tells it. */
export function pull(image: string, known: ReadonlySet<string>): Pull {
  const { name, tag, digest } = image.match(REFERENCE)?.groups ?? {}
  if (name === undefined)
    return {
      reason: 'InvalidImageName',
      message: `Failed to apply default image tag "${image}": couldn't parse image name "${image}": invalid reference format`,
    }
  if (known.has(image) || known.has(name)) return 'pulled'
  const isOfAHub = /^[^/]*[.:][^/]*\//.test(name)
  const path = isOfAHub ? name : `docker.io/${name.includes('/') ? name : `library/${name}`}`
  const full = digest === undefined ? `${path}:${tag ?? 'latest'}` : `${path}@${digest}`
  return {
    reason: 'ErrImagePull',
    message: `rpc error: code = NotFound desc = failed to pull and unpack image "${full}": failed to resolve reference "${full}": ${full}: not found`,
  }
}
