import { execFileSync } from 'node:child_process'
import os from 'node:os'
import { parseArgs } from 'node:util'
import { layTable } from '../src/cli/table.ts'

/** Who measured what, when and on which machine, so that figures can be compared, or seen not to be comparable. */
function describeRun() {
  const [cpu] = os.cpus()
  const memoryGb = Math.round(os.totalmem() / 2 ** 30)
  return {
    date: new Date().toISOString().slice(0, 10),
    commit: commit(),
    machine: `${os.availableParallelism()} cores (${cpu?.model.trim() ?? os.arch()}), ${memoryGb} GB, ${os.platform()}`,
    load: Math.round((os.loadavg()[0] ?? 0) * 10) / 10,
    node: process.version,
  }
}

/** A copy without its history has none. */
function commit(): string {
  try {
    const git = (...args: string[]) =>
      execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
    const isChanged = git('status', '--porcelain', '--untracked-files=no').trim() !== ''
    return git('rev-parse', '--short=7', 'HEAD').trim() + (isChanged ? ' and changes' : '')
  } catch {
    return 'unknown'
  }
}

/** One table for people. The first row is its head. */
export function printTable([titles = [], ...rows]: readonly (readonly string[])[]): void {
  const columns = titles.map((title) => ({ title }))
  const cells = rows.map((row) => row.map((text) => ({ text })))
  process.stdout.write(`${layTable(columns, cells).join('\n')}\n`)
}

/** One object for programs. */
export function printJson(result: object): void {
  process.stdout.write(`${JSON.stringify({ ...describeRun(), ...result }, null, 2)}\n`)
}

/** While it runs, on stderr, so that what is measured stays alone on stdout. */
export function say(progress: string): void {
  process.stderr.write(`${progress}\n`)
}

type Options = NonNullable<Parameters<typeof parseArgs>[0]>['options']

/** The options of a command, and its words. What it does not know, or cannot read, ends it with a sentence and how it is called. */
export function readArgs<const Known extends NonNullable<Options>>(
  usage: string,
  options: Known,
  allowPositionals = true,
) {
  if (process.argv.slice(2).some((word) => word === '--help' || word === '-h')) {
    process.stdout.write(`${usage}\n`)
    process.exit(0)
  }
  try {
    return parseArgs({ options, strict: true, allowPositionals })
  } catch (error) {
    // The parser goes on about how to get around it, which leads nowhere here.
    const [first = ''] = (error as Error).message.split(/(?<=\.) |\n/)
    return refuse(usage, first.replace(/\.?$/, '.'))
  }
}

/** The same of a command that takes no words. */
export function readOptions<const Known extends NonNullable<Options>>(usage: string, options: Known) {
  return readArgs(usage, options, false).values
}

export function refuse(usage: string, why: string): never {
  process.stderr.write(`${why}\n\n${usage}\n`)
  process.exit(2)
}
