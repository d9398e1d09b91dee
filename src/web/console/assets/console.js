// What the pages do besides being read: they stay true while they are looked at, ask before something ends, and copy.
// Everything here is an addition: without it the same links and forms work.

const root = document.documentElement
const one = (selector, within = document) => within.querySelector(selector)
const all = (selector, within = document) => [...within.querySelectorAll(selector)]

// ---- Theme

const themes = { system: 'Theme: as the system', light: 'Theme: light', dark: 'Theme: dark' }
const toggle = one('#theme')
function showTheme() {
  if (toggle) toggle.textContent = themes[root.dataset.theme ?? 'system']
}
toggle?.addEventListener('click', () => {
  const names = Object.keys(themes)
  const next = names[(names.indexOf(root.dataset.theme ?? 'system') + 1) % names.length]
  if (next === 'system') delete root.dataset.theme
  else root.dataset.theme = next
  try {
    localStorage.setItem('sandman-theme', next)
  } catch {
    // Then it is only for this page.
  }
  showTheme()
})
showTheme()

// ---- Ages, which go on while nothing else happens

const skewMs = Date.now() - Number(root.dataset.now)
function age(ms) {
  const seconds = Math.max(0, ms) / 1000
  const units = { d: 86400, h: 3600, m: 60 }
  const [unit, size] = Object.entries(units).find(([, each]) => seconds >= 2 * each) ?? ['s', 1]
  return `${Math.floor(seconds / size)}${unit}`
}
function showAges() {
  const now = Date.now() - skewMs
  for (const time of all('time[data-age]')) {
    const text = age(Math.abs(now - Date.parse(time.dateTime)))
    if (time.textContent !== text) time.textContent = text
  }
}
setInterval(showAges, 1000)

// ---- Making this page like the one that was just fetched, and touching nothing that is the same

const keyOf = (node) => node.id || node.dataset?.key
function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || keyOf(old) !== keyOf(fresh)) {
    old.replaceWith(document.importNode(fresh, true))
    return
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.data = fresh.data
    return
  }
  // What somebody is in the middle of stays: a question that is open, a field with something in it.
  if (old.matches('dialog[open], input, textarea, select')) return
  // Output is added to as it comes; the page that was fetched may know more, or less.
  if (old.dataset.to && Number(old.dataset.to) >= Number(fresh.dataset.to)) return
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== 'open') old.removeAttribute(name)
  }
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value)
  const atEnd = isAtEnd(old)
  const known = new Map([...old.children].filter(keyOf).map((child) => [keyOf(child), child]))
  let at = old.firstChild
  for (const child of [...fresh.childNodes]) {
    const same = keyOf(child) ? known.get(keyOf(child)) : at && !keyOf(at) ? at : undefined
    if (!same) {
      old.insertBefore(document.importNode(child, true), at)
      continue
    }
    if (same === at) at = at.nextSibling
    else old.insertBefore(same, at)
    morph(same, child)
  }
  while (at) {
    const next = at.nextSibling
    at.remove()
    at = next
  }
  if (old.dataset.to && atEnd) old.scrollTop = old.scrollHeight
}
const isAtEnd = (element) => element.scrollHeight - element.scrollTop - element.clientHeight < 24

// ---- Live

const REFRESH_EVERY_MS = 1000
const AGAIN_MS = 15_000
const OUTPUT_CHARS_MAX = 131_072
const mark = one('#live')
const told = one('#told')
let stream
let streamed
let refreshing
let again

function show(state, text) {
  if (!mark || mark.dataset.state === state) return
  mark.dataset.state = state
  mark.textContent = text
}

/** However often it is asked for, one after the other, and not more often than somebody can read. */
function refresh() {
  if (refreshing) {
    again = true
    return
  }
  refreshing = fetchPage()
    .catch(() => {}) // the next change tries again
    .then(() => new Promise((resolve) => setTimeout(resolve, REFRESH_EVERY_MS)))
    .then(() => {
      refreshing = undefined
      if (again) refresh()
    })
  again = false
}

async function fetchPage() {
  const response = await fetch(location.href, { headers: { accept: 'text/html' }, cache: 'no-store' })
  if (response.redirected || response.status === 401) return location.reload()
  if (!response.ok) return
  const fresh = new DOMParser().parseFromString(await response.text(), 'text/html')
  for (const region of all('[data-live]', fresh)) {
    const old = document.getElementById(region.id)
    if (old) morph(old, region)
  }
  const { say, stream: url } = fresh.body.dataset
  if (say && say !== document.body.dataset.say) told.textContent = say
  Object.assign(document.body.dataset, { ...(say && { say }), stream: url ?? '' })
  showAges()
  if (url !== streamed) open()
}

function open() {
  stream?.close()
  streamed = document.body.dataset.stream
  // A page that nobody sees needs nothing, and a browser has few connections.
  if (!streamed || document.hidden) {
    streamed = undefined
    return
  }
  const own = new EventSource(streamed)
  stream = own
  own.onopen = () => show('live', 'Live')
  own.onerror = () => {
    show('away', 'Reconnecting')
    if (own.readyState === EventSource.CLOSED) setTimeout(() => own === stream && open(), AGAIN_MS)
  }
  own.addEventListener('changed', refresh)
  own.addEventListener('output', ({ data }) => append(JSON.parse(data)))
}

function append({ executionId, from, to, text }) {
  const output = document.getElementById(`output-${executionId}`)
  if (!output || to <= Number(output.dataset.to)) return
  if (from !== Number(output.dataset.to)) return refresh() // something between is not here
  const atEnd = isAtEnd(output)
  output.append(text)
  output.dataset.to = to
  let excess = output.textContent.length - OUTPUT_CHARS_MAX
  while (excess > 0 && output.firstChild !== output.lastChild) {
    excess -= output.firstChild.textContent.length
    output.firstChild.remove()
  }
  if (atEnd) output.scrollTop = output.scrollHeight
}

if (mark && document.body.dataset.stream) {
  show('away', 'Connecting')
  open()
  document.addEventListener('visibilitychange', open)
  addEventListener('pagehide', () => stream?.close())
  addEventListener('pageshow', ({ persisted }) => persisted && open())
}
for (const output of all('pre[data-to]')) output.scrollTop = output.scrollHeight

// ---- Keys, questions, copying

addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey) return
  if (event.target.closest('input, textarea, select, dialog')) return
  event.preventDefault()
  one('#find')?.focus()
})

// What is a link without scripts is called a button, and does what buttons do.
addEventListener('keydown', (event) => {
  const button = event.key === ' ' && event.target.closest('a[role=button]')
  if (!button) return
  event.preventDefault() // or the page would scroll
  if (!event.repeat) button.click()
})

addEventListener('click', async (event) => {
  const asks = event.target.closest('[data-dialog]')
  const dialog = asks && document.getElementById(asks.dataset.dialog)
  if (dialog) {
    event.preventDefault()
    dialog.showModal()
  }
  const copies = event.target.closest('[data-copy]')
  if (copies) {
    const text = copies.dataset.copy || document.getElementById(copies.dataset.from).textContent
    await navigator.clipboard?.writeText(text)
    told.textContent = 'Copied.'
    copies.textContent = 'Copied'
    setTimeout(() => {
      copies.textContent = 'Copy'
    }, 1500)
  }
})

addEventListener('submit', (event) => {
  if (event.target.method !== 'post' || event.submitter?.formMethod === 'dialog') return
  // Pressed twice is meant once.
  if (event.target.dataset.sent) event.preventDefault()
  event.target.dataset.sent = 'yes'
  event.submitter?.setAttribute('aria-busy', 'true')
})
addEventListener('pageshow', () => {
  for (const form of all('form[data-sent]')) delete form.dataset.sent
  for (const button of all('button[aria-busy]')) button.removeAttribute('aria-busy')
})
