import { afterEach, expect, test } from 'vitest'
import { ServiceFailed, startService } from '../../src/embedded/service.ts'

const node = process.execPath
afterEach(() => {
  process.execPath = node
})

test('a keeper that cannot be started is a failure like any other, and says why', async () => {
  process.execPath = '/nowhere/node' // as after an upgrade of Node
  const starting = startService({
    ...{ command: '/usr/bin/postgres', args: [], cwd: '/', env: {}, uid: undefined, gid: undefined },
    ...{ readyText: 'ready', stopSignal: 'SIGINT', logFile: undefined, removeAfter: [] },
  })
  await expect(starting).rejects.toBeInstanceOf(ServiceFailed)
  await expect(starting).rejects.toThrow('its keeper could not be started: spawn /nowhere/node ENOENT')
})
