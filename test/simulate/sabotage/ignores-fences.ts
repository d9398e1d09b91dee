import type { Sabotage } from '../../../simulate/world.ts'

/** Whoever was presumed dead and comes back writes all the same. */
export const sabotage: Sabotage = {
  statement: (text) => text.replace(/and fence = (\$\d+) and fleet/, 'and $1::int is not null and fleet'),
}
