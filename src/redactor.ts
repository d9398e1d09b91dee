/**
 * Takes known secrets, and the password of any URL, out of a finished line. By value and not by field name, because a
 * secret gets into a log through the message of somebody else's error.
 */
export function createRedactor(secrets: string[]): (line: string) => string {
  // As they look inside JSON. Short values would blot out ordinary words.
  const known = secrets
    .filter((secret) => secret.length >= 6)
    .map((secret) => escapeRegExp(JSON.stringify(secret).slice(1, -1)))
  // Each part has a bound, and a scheme begins where a word does: a line may be as long as somebody likes, and is written by anybody.
  const urlPassword = /(?<!\w)(\w{1,32}:\/\/[^\s:@/"]{0,256}:)[^\s@/"]{1,512}@/g
  const knownSecrets = known.length > 0 ? new RegExp(known.join('|'), 'g') : undefined
  return (line) => {
    const withoutUrls = line.replace(urlPassword, '$1[redacted]@')
    return knownSecrets ? withoutUrls.replace(knownSecrets, '[redacted]') : withoutUrls
  }
}

function escapeRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
