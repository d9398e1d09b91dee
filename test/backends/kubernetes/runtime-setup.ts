import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { expect, onTestFinished } from 'vitest'
import {
  type Container,
  type ContainerAsked,
  Runtime,
  type RuntimeOptions,
} from '../../support/kubernetes/runtime/runtime.ts'

export const sh = (script: string) => ['sh', '-c', script]
export const IDLING = ['sleep', '1000']

/** Doubles until somebody puts an end to it. */
export const EATING = 'a=xxxxxxxx; while :; do a=$a$a; done'

/** Until a file is there, so that the test says when. */
export const until = (file: string) => `until [ -e ${file} ]; do sleep 0.01; done`

/** A runtime of its own, a short way to start containers in it, and a volume. */
export async function setup(options?: RuntimeOptions) {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-runtime-'))
  const volume = await mkdtemp(path.join(os.tmpdir(), 'sandman-volume-'))
  const runtime = await Runtime.create(folder, options)
  onTestFinished(async () => {
    await runtime.stop()
    await rm(volume, { recursive: true, force: true })
  })
  let started = 0
  const asked = (command: string[], more: Partial<ContainerAsked> = {}): ContainerAsked => ({
    id: `pod/agent/${started++}`,
    command,
    env: {},
    workingDir: '/workspace',
    mounts: [{ mountPath: '/workspace', folder: volume }],
    memoryBytesMax: undefined,
    ...more,
  })
  const start = (command: string[], more?: Partial<ContainerAsked>) => runtime.start(asked(command, more))
  return { runtime, folder, volume, asked, start }
}

export function textOf({ log }: Container, stream?: 'stdout' | 'stderr'): string {
  const entries = log.snapshot().filter((entry) => stream === undefined || entry.stream === stream)
  return entries.map(({ bytes, isPartial }) => `${bytes}${isPartial ? '' : '\n'}`).join('')
}

/** Runs a command in a container to its end. */
export async function run(container: Container, command: string[] | string, input?: string) {
  const words = typeof command === 'string' ? sh(command) : command
  const process = await container.exec({ command: words, stdin: input !== undefined, tty: false })
  process.stdin?.end(input)
  const [stdout, stderr, { exitCode }] = await Promise.all([read(process.stdout), read(process.stderr), process.ended])
  return { stdout, stderr, exitCode }
}

export async function read(output: Readable): Promise<string> {
  return (await buffer(output)).toString()
}

/** It has said this. */
export async function said(container: Container, text: string): Promise<void> {
  for await (const { bytes } of container.log.entries()) if (bytes.includes(text)) return
  expect.unreachable(`it ended before it said ${text}`)
}

/** Nothing when it has ended. */
export function nameOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim()
  } catch {
    return ''
  }
}
