import { quote } from '../../quote-word.ts'

/**
 * In the environment of everything that runs in a sandbox for Sandman: which life it belongs to, and which part of that it is. It is
 * found by that, also after it has left its parents, and after a worker has died.
 */
export const INSTANCE_VARIABLE = 'SANDMAN_INSTANCE'
export const PART_VARIABLE = 'SANDMAN_PART'

/**
 * Which process a pid is now: its birth, on this boot, in `$is`. It fails where there is none, or only what is left of one. Read
 * without starting anything, because it is asked often.
 */
export const IDENTIFY = `identify() {
  is= stat= line= boot=
  { while IFS= read -r line || [ -n "$line" ]; do stat=$stat$line; done <"/proc/$1/stat"; } 2>/dev/null
  [ -n "$stat" ] || return 1
  set -- \${stat##*) }
  case $1 in Z|X) return 1;; esac
  shift 19
  { read -r boot </proc/sys/kernel/random/boot_id; } 2>/dev/null
  is=$1.$boot
}`

/** The folder of this life, which `$root` names: at home, or where that cannot be written, among the temporary files. */
export const FIND_BASE = `find_base() {
  for folder in "\${HOME:-}" /tmp; do
    base=$folder/.sandman/$root
    if [ -n "$folder" ] && [ -d "$base" ]; then return; fi
  done
  base=
  return 1
}
make_base() {
  find_base && return
  for folder in "\${HOME:-}" /tmp; do
    base=$folder/.sandman/$root
    if [ -n "$folder" ] && mkdir -p "$base" && [ -w "$base" ]; then return; fi
  done
  fail "there is no folder to keep agents in"
}`

/**
 * Prints the processes of parts: those that carry the mark in their environment, those in the session of an agent, and what
 * descends from any of these. Input: lines with a part and the leader of its session, then what the system says of all
 * processes, then their environments, in which line ends have become tabs, and NULs line ends.
 */
const FIND_MEMBERS = `
function note() { if (ours && named != "" && !(pid in dead)) part[pid] = named; ours = 0; named = "" }
$0 == "--stat" || $0 == "--environ" { section = $0; next }
section == "" { leader[$2] = $1; next }
section == "--stat" {
  pid = $1
  if (!sub(/^.*\\) /, "")) next
  if ($1 == "Z" || $1 == "X") { dead[pid] = 1; next }
  parent[pid] = $2
  if ($4 in leader) part[pid] = leader[$4]
  next
}
{
  while (match($0, /\\t?==> \\/proc\\/[0-9]+\\/environ <==\\t/)) {
    note()
    pid = substr($0, RSTART, RLENGTH)
    gsub(/[^0-9]/, "", pid)
    $0 = substr($0, RSTART + RLENGTH)
  }
  if ($0 == "${INSTANCE_VARIABLE}=" base) ours = 1
  if (index($0, "${PART_VARIABLE}=") == 1) named = substr($0, ${PART_VARIABLE.length + 2})
}
END {
  note()
  do {
    found = 0
    for (pid in parent) if (!(pid in part) && (parent[pid] in part)) { part[pid] = part[parent[pid]]; found = 1 }
  } while (found)
  for (pid in part) if (only != "" ? part[pid] == only : part[pid] != "agent" && part[pid] != "sidecar") print pid
}`

/**
 * What every script begins with.
 *
 * - `say` answers, and `fail` ends with an answer.
 * - `find_base` finds the folder of this life, and `make_base` makes it: at home, or where that cannot be written, among the
 *   temporary files.
 * - `is_there` tells whether the process that a file names is still that process.
 * - `settle` waits until an agent that somebody is starting has been started, or never will be.
 * - `members` prints the processes of a part, or, without one, of all parts but the sandbox's own agent and its sidecar.
 * - `destroy` kills those until none is left. All stand still before the first one dies: whoever sees its child die would
 *   otherwise go on, and may even end as if its work were done.
 */
export function prelude({ mark, root }: { mark: string; root: string }): string {
  return `exec 2>&1
umask 077
root=${quote(root)}
say() { printf '%s %s\\n' ${quote(mark)} "$*"; }
fail() { say failed "$*"; exit 1; }
nap() { sleep "$1" 2>/dev/null || sleep 1; }
${FIND_BASE}
${IDENTIFY}
is_there() {
  pid= known=
  { read -r pid known <"$1"; } 2>/dev/null
  [ -n "$pid" ] && identify "$pid" && [ "$is" = "$known" ]
}
settle() {
  rounds=0
  while [ -e "$1/runner" ] && [ ! -e "$1/agent" ] && [ ! -e "$1/end" ] && is_there "$1/runner"; do
    [ $rounds -lt 500 ] || fail "an agent is being started, and does not begin"
    rounds=$((rounds + 1))
    nap 0.02
  done
}
leaders() {
  for at in "$base"/*; do
    pid= known=
    { read -r pid known <"$at/agent"; } 2>/dev/null
    if [ -z "$pid" ] || { identify "$pid" && [ "$is" != "$known" ]; }; then continue; fi
    echo "\${at##*/} $pid"
  done
}
members() {
  {
    leaders
    echo --stat
    cat /proc/[0-9]*/stat 2>/dev/null
    echo --environ
    head -c 4194304 /dev/null /proc/[0-9]*/environ 2>/dev/null | tr '\\n\\0' '\\t\\n'
  } | LC_ALL=C awk -v base="$base" -v only="$1" ${quote(FIND_MEMBERS)}
}
destroy() {
  rounds=0
  while list=$(members "$1") && [ -n "$list" ]; do
    [ $rounds -lt 100 ] || fail "these processes do not end:" $list
    rounds=$((rounds + 1))
    kill -STOP $list 2>/dev/null
    kill -KILL $list 2>/dev/null
    nap 0.02
  done
}`
}
