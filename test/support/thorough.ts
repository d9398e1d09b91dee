/**
 * With `SANDMAN_TEST_THOROUGH=1` the longest tests go through all that they know to go through; it takes many minutes more. Without it,
 * each takes a fixed part in which everything that it claims is met.
 */
export const isThorough = process.env.SANDMAN_TEST_THOROUGH === '1'
