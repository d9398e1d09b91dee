import { proveDocker } from './docker-setup.ts'

await proveDocker('freeze', 'memory')
