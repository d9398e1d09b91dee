import type { Sabotage } from '../../../simulate/world.ts'

/** Whoever was presumed dead and comes back writes all the same. */
export const sabotage: Sabotage = {
  statement: (text) => text.replace(/and fence = (\$\d+|of_fence)/, 'and $1::int is not null'),
}
