import { enableCompileCache } from 'node:module'
import path from 'node:path'
import { processIo } from './cli/process-io.ts'
import { run } from './cli/run.ts'
import { SandmanError } from './errors.ts'

/** With `sandman dev`, the only reader of the environment. */
function environment(): NodeJS.ProcessEnv {
  try {
    process.loadEnvFile('.env') // does not override what is set already
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'ENOENT')
      throw new SandmanError('config_invalid', `The file .env cannot be read (${code}).`, { cause: error })
  }
  return process.env
}

// Half of the time until a command does something is spent on reading libraries, which need not be read twice. A folder that
// cannot be written to only costs that time.
enableCompileCache(path.join(import.meta.dirname, '..', 'node_modules', '.cache', 'sandman'))
// What a library writes to the console is nobody's answer. The processes of a fleet make lines of their log of it.
console.warn = console.error = () => {}
process.exitCode = await run(process.argv.slice(2), processIo(process.env, environment))
// Whatever a library left open must not keep a process that has stopped.
process.exit()
