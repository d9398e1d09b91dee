import type { Call, Sighting } from '../backend.ts'
import type { Account } from './account.ts'
import { findInstance } from './instance.ts'
import { checkpointShown, isSettled } from './pauses.ts'

export async function lookAt(account: Account, ref: string, call: Call): Promise<Sighting> {
  const instance = await findInstance(account, ref, call)
  if (!instance) return { is: 'absent' }
  switch (instance.is) {
    case 'running':
      return { is: 'running', incarnation: instance.incarnation }
    case 'changing':
    case 'lost':
      return { is: instance.is, why: instance.why }
    case 'asleep': {
      const checkpointRef = checkpointShown(instance)
      if (checkpointRef !== undefined || !isSettled(account, instance)) return { is: 'suspended', checkpointRef }
      return { is: 'suspended', checkpointRef, broken: 'Agentuity has recorded no checkpoint of its last sleep' }
    }
  }
}
