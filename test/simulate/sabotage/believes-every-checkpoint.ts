import type { Sabotage } from '../../../simulate/world.ts'

/** A checkpoint is taken for whole because somebody said so, and nobody looks. */
export const sabotage: Sabotage = {
  backend: (backend) => ({
    ...backend,
    pausing: backend.pausing === 'none' ? 'none' : { ...backend.pausing, verify: async () => ({ is: 'ready' }) },
  }),
}
