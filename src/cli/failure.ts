import type { SandmanError } from '../errors.ts'
import { exit } from './exits.ts'

/** The exit code of what the library has thrown. */
export function codeOf({ code }: SandmanError): number {
  switch (code) {
    case 'sandbox_not_found':
    case 'operation_not_found':
    case 'execution_not_found':
      return exit('notFound')
    case 'request_invalid':
    case 'backend_unknown':
      return exit('usage')
    case 'execution_refused':
    case 'idempotency_key_reused':
      return exit('refused')
    default:
      return exit('failed')
  }
}
