#!/usr/bin/env node
// Stands in for curl on a machine that has none, as far as the examples in docs/ use it.
const [, , ...words] = process.argv
const headers = {}
let method
let body
let url
while (words.length > 0) {
  const word = words.shift()
  if (word === '-s' || word === '-N') continue
  if (word === '-X') method = words.shift()
  else if (word === '-d') body = words.shift()
  else if (word === '-H') {
    const [, name, value] = /^([^:]+): (.*)$/.exec(words.shift())
    headers[name] = value
  } else if (word.startsWith('-') || url) throw new Error(`curl is not known here with ${word}`)
  else url = word
}
const response = await fetch(url, { method: method ?? (body === undefined ? 'GET' : 'POST'), headers, body })
for await (const chunk of response.body) process.stdout.write(chunk)
