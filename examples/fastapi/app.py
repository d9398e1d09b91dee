"""A FastAPI app with previews that sleep. It asks Sandman over HTTP; the workers run elsewhere.

Its functions are plain ones and not async: FastAPI runs each in a thread, which may wait for an answer.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, FastAPI, Header
from fastapi.responses import JSONResponse, StreamingResponse

from previews import Preview, Previews, connect, show_problem, status_of
from sandman_client import Problem

sandman = connect()
previews = Previews(sandman)
app = FastAPI(title="Previews")

Click = Annotated[str | None, Header(alias="Idempotency-Key")]


def shown(preview: Preview) -> JSONResponse:
    return JSONResponse(preview, status_of(preview))


@app.exception_handler(Problem)
def explain(_request: object, problem: Problem) -> JSONResponse:
    return shown(show_problem(problem))


# Before these, your app checks that the project is theirs who ask: Sandman does not know your users.
@app.get("/projects/{project}/preview")
def look(project: str) -> JSONResponse:
    return shown(previews.look(project))


@app.post("/projects/{project}/preview")
def open_preview(project: str, click: Click = None) -> JSONResponse:
    return shown(previews.open(project, click))


@app.post("/projects/{project}/preview/pause")
def pause(project: str, click: Click = None) -> JSONResponse:
    return shown(previews.pause(project, click))


@app.post("/projects/{project}/preview/rebuild")
def rebuild(project: str, click: Click = None) -> JSONResponse:
    return shown(previews.rebuild(project, click))


@app.post("/projects/{project}/run", response_model=None)
def run(project: str, command: Annotated[list[str], Body(embed=True)], click: Click = None) -> JSONResponse | StreamingResponse:
    """Runs a command in the sandbox, which wakes for it, and streams what it prints. Show it as text, and never as HTML."""
    sandbox = previews.sandbox_of(project)
    if not sandbox:
        return shown({"state": "none"})
    execution = sandman.execute(sandbox["id"], command, key=click and f"{project}/{click}")
    return StreamingResponse(sandman.output(execution["id"]), media_type="text/plain; charset=utf-8")
