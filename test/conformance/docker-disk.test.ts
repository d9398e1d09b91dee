import { proveDocker } from './docker-setup.ts'

// What does not depend on how it sleeps is in docker.test.ts.
await proveDocker('disk', 'disk', ['claims', 'pausing'])
