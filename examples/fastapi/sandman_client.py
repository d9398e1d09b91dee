"""Sandman over HTTP, with nothing but Python's standard library (3.10 or newer)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

# How long an answer may take, besides what the server was asked to wait. Streams say something every 15 seconds.
ANSWER_S = 30
# How often something is sent again whose answer was lost, and how often a stream is read on that brought nothing.
TRIES_MAX = 5
PAUSE_S = 0.5


class Problem(Exception):
    """What went wrong (application/problem+json). Decide by `error_type`; `message` is for people."""

    def __init__(self, status: int, said: dict[str, Any]) -> None:
        super().__init__(said.get("message") or f"The server answered with status {status}.")
        self.status = status
        self.error_type: str = said.get("error_type") or "sandbox_unreachable"
        self.retryable: bool = said.get("retryable", True)


class Sandman:
    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def spawn(self, spec: dict[str, Any], *, key: str | None = None, wait: int = 30) -> dict[str, Any]:
        return self._ask("POST", "/v1/sandboxes", body=spec, key=key, wait=wait)

    def ask(
        self, sandbox_id: str, verb: str, asked: dict[str, Any] | None = None, *, key: str | None = None, wait: int = 30
    ) -> dict[str, Any]:
        """`pause`, `resume`, `snapshot`, `kill`, `destroy`: answered when it has settled, or after `wait` seconds.

        Answers with the operation and its sandbox, and raises a `Problem` when it failed or was refused.
        """
        return self._ask("POST", f"/v1/sandboxes/{sandbox_id}/{verb}", body=asked or {}, key=key, wait=wait)

    def touch(self, sandbox_id: str) -> dict[str, Any]:
        return self._ask("POST", f"/v1/sandboxes/{sandbox_id}/touch")

    def find(self, **metadata: str) -> dict[str, Any] | None:
        """The newest sandbox with this metadata. A page may be empty and still not be the last one."""
        query = {f"metadata.{name}": value for name, value in metadata.items()}
        while True:
            page = self._ask("GET", "/v1/sandboxes", query={**query, "limit": 1})
            if page["items"]:
                return page["items"][0]
            if not page["next_cursor"]:
                return None
            query["cursor"] = page["next_cursor"]

    def execute(self, sandbox_id: str, command: list[str], *, key: str | None = None) -> dict[str, Any]:
        return self._ask("POST", f"/v1/sandboxes/{sandbox_id}/executions", body={"command": command}, key=key)["execution"]

    def output(self, execution_id: str) -> Iterator[str]:
        """What it prints, as it is printed, until it has ended. A stream that is cut is read on behind the last event."""
        last_id, breaks = None, 0
        while True:
            try:
                for event in self._events(f"/v1/executions/{execution_id}/output", last_id):
                    if event["event"] == "end":
                        return
                    if event["event"] == "problem":
                        break  # it cannot go on here: come back
                    last_id, breaks = event["id"], 0
                    yield json.loads(event["data"])["text"]
            except (OSError, HTTPException) as error:
                if isinstance(error, HTTPError) and error.code < 500:
                    raise problem_of(error) from None
            breaks += 1
            if breaks > TRIES_MAX:
                raise Problem(503, {"message": f"The output of {execution_id} cannot be read any further."})
            time.sleep(PAUSE_S)

    def _events(self, path: str, last_id: str | None) -> Iterator[dict[str, str]]:
        """Server-sent events: fields, a line each, and an empty line behind every event."""
        headers = {**self._headers, "Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
        with urlopen(Request(self._url + path, headers=headers), timeout=ANSWER_S) as stream:
            if stream.status == 204:
                yield {"event": "end"}  # there is nothing behind the last one
            event = {"event": "message"}
            for line in stream:
                name, _, value = line.decode().rstrip("\n").partition(":")
                if name:
                    event[name] = value.removeprefix(" ")
                elif "data" in event:
                    yield event
                    event = {"event": "message"}

    def _ask(
        self,
        method: str,
        path: str,
        *,
        body: dict[str, Any] | None = None,
        query: dict[str, Any] | None = None,
        key: str | None = None,
        wait: int = 0,
    ) -> dict[str, Any]:
        asked = urlencode({**(query or {}), **({"wait": f"{wait}s"} if wait else {})})
        # Quoted, because a header takes no letters beyond ASCII, and the name of a project may.
        headers = {**self._headers, **({"Idempotency-Key": quote(key)} if key else {})}
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        request = Request(f"{self._url}{path}?{asked}", data, headers, method=method)
        # Sent again only if that changes nothing: who reads may, and who has a key gets what the first one got.
        tries = TRIES_MAX if method == "GET" or key else 1
        while True:
            try:
                with urlopen(request, timeout=wait + ANSWER_S) as answer:
                    return json.load(answer)
            except HTTPError as error:
                raise problem_of(error) from None
            except (OSError, HTTPException) as error:
                tries -= 1
                if not tries:
                    raise Problem(503, {"message": f"Sandman does not answer: {error}."}) from error
                time.sleep(PAUSE_S)


def problem_of(error: HTTPError) -> Problem:
    """A gateway in between may answer with something else, and then nobody knows more than that it did not work."""
    try:
        said = json.load(error) if "json" in error.headers.get("Content-Type", "") else {}
    except (ValueError, OSError, HTTPException):
        said = {}
    return Problem(error.code, said)
