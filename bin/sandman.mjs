#!/usr/bin/env node
// Starts the command line: as it was built for the package, or, in a clone, from its sources, with a Node that can: this one, or the
// one that `npm install` has put there.

import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const sources = path.join(root, 'src', 'main.ts')
const isClone = existsSync(sources)
const main = isClone ? sources : path.join(root, 'dist', 'main.js')
const ownNode = path.join(root, 'node_modules', 'node', 'bin', 'node')
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)

if (isClone && !existsSync(path.join(root, 'node_modules'))) {
  stop('its dependencies are not installed yet: run npm start (or npm install) first.')
} else if (major > 22 || (major === 22 && minor >= 18)) {
  await import(pathToFileURL(main).href)
} else if (isClone && existsSync(ownNode)) {
  const child = spawn(ownNode, [main, ...process.argv.slice(2)], { stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  child.on('exit', (code, signal) => process.exit(signal ? 1 : code))
} else {
  const cure = isClone
    ? 'run npm start (or npm install) first, which brings one'
    : '"npm install node@24" here brings one'
  stop(`it needs Node 22.18 or newer, and this is ${process.version}: ${cure}.`)
}

function stop(why) {
  process.stderr.write(`sandman: ${why}\n`)
  process.exitCode = 1
}
