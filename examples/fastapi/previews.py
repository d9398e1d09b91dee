"""An app builder's previews: every project has one sandbox, with its dev server in it, that sleeps while nobody looks.

`app.py` serves them. Without FastAPI: python3 previews.py look|open|pause|rebuild <project> [<key of the click>]
                                       python3 previews.py run <project> <command> [<argument> …]
"""

from __future__ import annotations

import json
import os
import sys
from hashlib import sha256
from typing import Any

from sandman_client import Problem, Sandman

# What the page of a project shows: its preview, or what its user can do about it.
Preview = dict[str, Any]


class Previews:
    """`click` is the `Idempotency-Key` that the page sends: the same one with every retry of a click, another one with the next."""

    def __init__(self, sandman: Sandman) -> None:
        self._sandman = sandman

    def look(self, project: str, click: str | None = None) -> Preview:
        """The page asks once a minute, and so says that somebody looks: 15 minutes after the last time, the reaper pauses it."""
        sandbox = self.sandbox_of(project)
        return show_sandbox(self._sandman.touch(sandbox["id"])) if sandbox else {"state": "none"}

    def open(self, project: str, click: str | None = None) -> Preview:
        """Wakes the preview of a project, and makes it the first time."""
        sandbox = self.sandbox_of(project)
        if sandbox:
            return show(self._sandman.ask(sandbox["id"], "resume", key=key_of(project, click)))
        # The key is the project's and not the click's: of two tabs that open it at once, both get the one sandbox.
        return show(self._sandman.spawn(spec_of(project), key=f"first preview of {project}"))

    def pause(self, project: str, click: str | None = None) -> Preview:
        sandbox = self.sandbox_of(project)
        if not sandbox:
            return {"state": "none"}
        return show(self._sandman.ask(sandbox["id"], "pause", key=key_of(project, click)))

    def rebuild(self, project: str, click: str | None = None) -> Preview:
        """What the user has agreed to when there is nothing to wake any more: a fresh one, under the same id."""
        sandbox = self.sandbox_of(project)
        if not sandbox:
            return self.open(project, click)
        return show(self._sandman.ask(sandbox["id"], "resume", {"if_lost": "respawn"}, key=key_of(project, click)))

    def sandbox_of(self, project: str) -> dict[str, Any] | None:
        """Found by its metadata. An app with a database of its own keeps the id with the project instead."""
        return self._sandman.find(preview=project)


def key_of(project: str, click: str | None) -> str | None:
    """Keys are the fleet's: what strangers send must not meet the keys of another project."""
    return click and f"{project}/{click}"


def show(answer: dict[str, Any]) -> Preview:
    settled = answer["operation"]["status"] == "succeeded"
    return show_sandbox(answer["sandbox"]) if settled else {"state": "working"}


def show_sandbox(sandbox: dict[str, Any]) -> Preview:
    match sandbox["state"]:
        case "running":
            return {"state": "ready", "url": sandbox["preview_url"]}
        case "suspended":
            return {"state": "asleep"}
        case "gone":
            message = f"It has ended: {sandbox['gone_reason']}."
            return {"state": "failed", "offer": "rebuild", "error_type": "sandbox_gone", "message": message}
        case _:
            return {"state": "working"}  # it takes longer than anybody should wait for; it goes on, and the page asks again


def show_problem(problem: Problem) -> Preview:
    match problem.error_type:
        case "sandbox_unreachable" | "rate_limited" | "sandbox_busy":
            offer = "retry"
        case "database_unreachable" | "queue_unreachable" | "fleet_closed" | "too_many_requests":
            offer = "retry"
        case "sandbox_expired" | "sandbox_gone" | "checkpoint_missing" | "checkpoint_corrupt":
            offer = "rebuild"
        case _:  # the provider's account, or a bug: nothing that the user of a preview could do anything about
            offer = "support"
    return {"state": "failed", "offer": offer, "error_type": problem.error_type, "message": str(problem)}


def status_of(preview: Preview) -> int:
    match preview:
        case {"state": "working"}:
            return 202
        case {"state": "none"}:
            return 404
        case {"state": "failed", "offer": offer}:
            return {"retry": 503, "rebuild": 410, "support": 500}[offer]
        case _:
            return 200


# Stands for a template with somebody's code in it. It tells since when it runs, so that one sees whether it is still the same.
SITE = """
const since = new Date().toISOString()
const { PROJECT, PORT } = process.env
require('node:http').createServer((_, page) => page.end(PROJECT + ' runs since ' + since + '\\n')).listen(PORT, '127.0.0.1')
"""


def spec_of(project: str) -> dict[str, Any]:
    # At a provider every sandbox has ports of its own. The local backend's share those of this machine.
    port = 20_000 + int.from_bytes(sha256(project.encode()).digest()[:2], "big") % 10_000
    return {
        "backend": "local",
        "agent": {"command": ["node", "-e", SITE], "env": {"PROJECT": project, "PORT": str(port)}},
        "wake": {"preview_port": port},
        "ttl": {"idle": "15m", "retention": "30d"},
        "metadata": {"preview": project},
    }


def connect() -> Sandman:
    return Sandman(os.environ.get("SANDMAN_URL", "http://127.0.0.1:3000"), os.environ.get("SANDMAN_SECRET"))


def main(verb: str, project: str, *rest: str) -> None:
    sandman = connect()
    previews = Previews(sandman)
    try:
        if verb == "run":
            sandbox = previews.sandbox_of(project)
            if not sandbox:
                sys.exit(f"{project} has no preview: open it first.")
            for text in sandman.output(sandman.execute(sandbox["id"], list(rest))["id"]):
                print(text, end="", flush=True)
            return
        preview = getattr(previews, verb)(project, *rest)
    except Problem as problem:
        preview = show_problem(problem)
    print(json.dumps({"status": status_of(preview), "body": preview}))


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("look", "open", "pause", "rebuild", "run"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
