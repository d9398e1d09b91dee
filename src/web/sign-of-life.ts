/** A stream that has nothing to say says so this often: sooner than any proxy takes silence for the end of a connection. */
export const SIGN_OF_LIFE_MS = 15_000
