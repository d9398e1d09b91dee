import { access, readFile } from 'node:fs/promises'
import path from 'node:path'
import { load, YAML11_SCHEMA } from 'js-yaml'
import { describe, expect, test } from 'vitest'
import { COMMANDS } from '../../src/cli/commands.ts'
import { describeConfig, parseConfig } from '../../src/config.ts'
import { parseDurationMs } from '../../src/duration.ts'
import { VERSION } from '../../src/version.ts'
import { NEEDED, SHOWN } from '../package/pack.ts'
import { type Instruction, ROOT, readDockerfile, readImage } from '../support/dockerfile.ts'
import { PROCESSES, readTemplate } from '../support/manifests.ts'

const read = (file: string) => readFile(path.join(ROOT, file), 'utf8')

describe('the Dockerfile', () => {
  /** What a stage takes from the folder, and not from another stage. */
  const copied = (stages: Instruction[][]) =>
    stages
      .flat()
      .filter(({ name, words }) => name === 'COPY' && !words[0]?.startsWith('--from'))
      .flatMap(({ words }) => words.slice(0, -1))

  test('copies what there is, and only that gets into its context', async () => {
    const sources = new Set(copied(await readDockerfile()))
    for (const source of sources) await expect(access(path.join(ROOT, source)), source).resolves.toBeUndefined()
    const [everything, ...admitted] = (await read('.dockerignore')).split('\n').filter((line) => !/^(#|$)/.test(line))
    expect(everything).toBe('*')
    expect(admitted.map((line) => line.replace(/^!/, '')).sort()).toEqual([...sources].sort())
  })

  test('packs from all that a package is made of', async () => {
    const [, stage = []] = await readDockerfile()
    expect(stage[0]?.words.at(-1)).toBe('package')
    expect(copied([stage])).toEqual(expect.arrayContaining([...NEEDED, ...SHOWN]))
  })

  test('copies from stages that there are', async () => {
    const stages = await readDockerfile()
    const names = stages.slice(1, -1).map(([from]) => from?.words.at(-1))
    const used = stages.flat().flatMap(({ words }) => /^--from=(.+)$/.exec(words[0] ?? '')?.[1] ?? [])
    expect(new Set(used)).toEqual(new Set(names))
  })

  test('is built on a Node of one major version that Sandman runs on, in every stage', async () => {
    const [[argument] = [], ...stages] = await readDockerfile()
    const [, major] = /^NODE_IMAGE=node:(\d+)-slim$/.exec(argument?.text ?? '') ?? []
    const { engines } = JSON.parse(await read('package.json')) as { engines: { node: string } }
    expect(Number(major)).toBeGreaterThan(Number(/^>=(\d+)/.exec(engines.node)?.[1]))
    for (const [from] of stages) expect(from?.words[0]).toBe('$' + '{NODE_IMAGE}')
  })

  test('makes an image that runs as the user that the pods have, and keeps data where that user may write', async () => {
    const { user, env, entrypoint } = await readImage()
    for (const process of PROCESSES) {
      const { runAsUser, runAsGroup } = (await readTemplate(process)).spec?.securityContext ?? {}
      expect(user).toBe(`${runAsUser}:${runAsGroup}`)
    }
    const said = (await readDockerfile())
      .at(-1)
      ?.map(({ text }) => text)
      .join('\n')
    const [folder] = env.map((each) => /^SANDMAN_DATA=(.+)$/.exec(each)?.[1])
    expect(said).toContain(`install -d -o 1000 -g 1000 ${folder}`)
    expect(said).toContain(`ln -s /sandman/bin/sandman.mjs /usr/local/bin/${entrypoint.join(' ')}`)
  })
})

describe('compose.yaml', () => {
  type Service = {
    image: string
    command?: string[]
    restart?: string
    environment: Record<string, string | number | null>
    healthcheck?: { test?: string[]; disable?: boolean }
    depends_on?: Record<string, { condition: string }>
    volumes?: string[]
    stop_grace_period?: string
    read_only?: boolean
  }
  type Compose = { services: Record<string, Service>; volumes: Record<string, null> }

  const given = { POSTGRES_PASSWORD: 'of-the-test', SANDMAN_TOKENS: 'me:admin:0123456789abcdef' } as Record<
    string,
    string
  >
  /** As Compose reads it, with the two secrets and nothing else set. */
  const fillIn = (text: string) =>
    text.replaceAll(
      /\$\{(\w+)(?::-([^}]*)|:\?[^}]*)\}/g,
      (_all, name: string, otherwise?: string) => given[name] ?? otherwise ?? '',
    )
  const text = read('compose.yaml')
  const compose = text.then((each) => load(fillIn(each), { schema: YAML11_SCHEMA }) as Compose)
  const ours = async () =>
    Object.entries((await compose).services).filter(([, { image }]) => image.startsWith('sandman'))

  test('runs the processes of this release by commands that there are', async () => {
    const names = COMMANDS.map(({ name }) => name)
    expect((await ours()).map(([name]) => name)).toEqual([...PROCESSES])
    for (const [name, { command, image }] of await ours()) {
      expect(command).toEqual([name])
      expect(names).toContain(name)
      expect(image).toBe(`sandman:${VERSION}`)
    }
  })

  test('gives them settings that the configuration takes', async () => {
    const known = describeConfig().map(({ name }) => name)
    for (const [name, { environment }] of await ours()) {
      for (const variable of Object.keys(environment)) expect(known).toContain(variable)
      const set = Object.entries(environment).filter(([, value]) => value !== null)
      const config = parseConfig(Object.fromEntries(set.map(([variable, value]) => [variable, String(value)])))
      expect(config.databaseUrl).toBe('postgres://sandman:of-the-test@postgres:5432/sandman')
      if (name === 'web') expect(config).toMatchObject({ host: '0.0.0.0', port: 3000 })
      if (name === 'worker') expect(config).toMatchObject({ backends: ['local'], ttl: {} })
    }
  })

  test('has no secrets in it, and does not start without them', async () => {
    for (const [, name = ''] of (await text).matchAll(/(\w*(?:PASSWORD|TOKENS)): (?!\$)/g)) expect(name).toBe('')
    for (const name of Object.keys(given)) expect(await text).toMatch(new RegExp(`\\$\\{${name}:\\?`))
    expect((await text).match(/\$\{\w+\}/)).toBeNull()
  })

  test('looks after everything: health, restarts, and time to stop', async () => {
    const { services, volumes } = await compose
    const { graceMs } = parseConfig({})
    for (const [name, service] of Object.entries(services)) {
      expect(service.restart, name).toMatch(/^(unless-stopped|on-failure:5)$/)
      expect(service.image).toMatch(/:\d/)
      for (const mount of service.volumes ?? []) expect(Object.keys(volumes)).toContain(mount.split(':')[0])
      for (const [other, { condition }] of Object.entries(service.depends_on ?? {})) {
        const ends = services[other]?.healthcheck?.disable === true
        expect(condition).toBe(ends ? 'service_completed_successfully' : 'service_healthy')
        expect(ends || services[other]?.healthcheck?.test).toBeTruthy()
      }
    }
    for (const [, service] of await ours()) {
      expect(parseDurationMs(String(service.stop_grace_period))).toBe(graceMs + 5_000)
      expect(service.read_only).toBe(true)
    }
  })
})

test('docs/running-in-containers.md names no setting and no file that is not there', async () => {
  const page = await read('docs/running-in-containers.md')
  const known = [...describeConfig().map(({ name }) => name)]
  for (const [name] of page.matchAll(/\bSANDMAN_[A-Z_]*[A-Z]\b/g)) expect(known).toContain(name)
  const { peerDependencies } = JSON.parse(await read('package.json')) as { peerDependencies: object }
  const [, asked = ''] = /PACKAGES="([^"]+)"/.exec(page) ?? []
  for (const name of asked.split(' ')) expect(Object.keys(peerDependencies)).toContain(name)
  const names = COMMANDS.map(({ name }) => name)
  for (const [, name] of page.matchAll(/\bsandman(?::[\d.]+)? (\w+)$/gm)) expect(names).toContain(name)
})
