"""The runs of the studio as JSON: the table, one run, its curves while it trains, notes, stop and resume."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, StreamingResponse

from seqloom.run import Run, RunError
from seqloom.run_summary import PICTURES
from seqloom.service.requests import RequestBody, read_json
from seqloom.studio.catalog import Catalog, write_note
from seqloom.studio.metrics_follower import MetricsFollower
from seqloom.terminal import json_value

WATCH_SECONDS = 1.0  # between two looks at the metrics of a run
MAX_WARNINGS = 3
WARNING = re.compile(r"^\S+ \S+ (warning: |(?=training diverged))")
PICTURE_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}


class RunRequest(RequestBody):
    """Something to do with a run."""

    run: str


class NoteRequest(RequestBody):
    """A note about a run."""

    run: str
    text: str = Field(max_length=10_000)


def find_run(request: Request, identity: str) -> Path:
    """The folder of a run that the studio shows."""
    catalog: Catalog = request.app.state.catalog
    path = catalog.find(identity)
    if path is None:
        raise HTTPException(404, f"there is no run {identity!r} below {catalog.folder}")
    return path


async def list_runs(request: Request) -> JSONResponse:
    """The table of runs; only its version, if that is what the client knows."""
    catalog: Catalog = request.app.state.catalog
    table = await run_in_threadpool(catalog.table)
    version = catalog.version
    if request.query_params.get("known") == version:
        return JSONResponse({"version": version})
    return JSONResponse({"folder": str(catalog.folder), "version": version, "runs": table})


async def show_run(request: Request) -> JSONResponse:
    identity = request.query_params.get("run", "")
    path = find_run(request, identity)
    return JSONResponse(await run_in_threadpool(_describe, request.app.state.catalog, identity, path))


def _describe(catalog: Catalog, identity: str, path: Path) -> dict[str, Any]:
    entry, rows = catalog.entry(identity)
    run = Run.open(path)
    summary = run.summary()
    pictures = [
        file.name for name in PICTURES for file in sorted(path.glob(f"{name}.*")) if file.suffix in PICTURE_TYPES
    ]
    values = {
        "run": entry,
        "warnings": _warnings(run),
        "rows": rows,
        "config": run.config,
        "details": run.details(),
        "metrics": run.facts().get("metrics", {}),
        "baseline": (summary.get("baseline") or {}).get("name", ""),
        "baseline_scores": summary.get("baseline_scores", {}),
        "examples": summary.get("examples", {}),
        "samples": summary.get("samples", []),
        "environment": {key: run.environment[key] for key in ("seqloom", "torch", "python") if key in run.environment},
        "pictures": pictures,
    }
    shown: dict[str, Any] = json_value(values)
    return shown


def _warnings(run: Run) -> list[str]:
    """What the training warned about, or why it failed, from the end of its log."""
    try:
        lines = run.log_end()
    except RunError:  # a log that cannot be read, or a link
        return []
    texts = [text for line in lines if (text := WARNING.sub("", line, count=1)) != line]
    return list(dict.fromkeys(texts))[-MAX_WARNINGS:]


async def watch(request: Request) -> StreamingResponse:
    """New rows of a run as server-sent events, and its state whenever it changes."""
    identity = request.query_params.get("run", "")
    path = find_run(request, identity)
    start = int(request.query_params.get("from", "0") or 0)
    return StreamingResponse(_events(request, path, start), media_type="text/event-stream")


async def _events(request: Request, path: Path, known: int) -> AsyncIterator[str]:
    state, size = None, -1
    metrics = await run_in_threadpool(lambda: MetricsFollower(Run.open(path)))
    while not await request.is_disconnected():
        is_training = await run_in_threadpool(Run.is_training, path)
        current = _size(path / "metrics.jsonl")
        if current != size:
            first = await run_in_threadpool(metrics.read)
            first = known if size < 0 else first  # the client has these rows already
            size = current
            if metrics.rows[first:]:
                yield _event("rows", {"from": first, "rows": json_value(metrics.rows[first:])})
        if is_training != state:
            state = is_training
            yield _event("state", {"training": is_training})
        else:
            yield ": still here\n\n"
        await asyncio.sleep(WATCH_SECONDS)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _event(name: str, value: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(value, allow_nan=False)}\n\n"


async def show_picture(request: Request) -> FileResponse:
    """A plot that the training has drawn."""
    path = find_run(request, request.query_params.get("run", ""))
    name = request.query_params.get("name", "")
    allowed = {file.name: file for picture in PICTURES for file in path.glob(f"{picture}.*")}
    file = allowed.get(name)
    if file is None or file.suffix not in PICTURE_TYPES or file.is_symlink():
        raise HTTPException(404, f"the run has no picture {name!r}")
    return FileResponse(file, media_type=PICTURE_TYPES[file.suffix])


async def keep_note(request: Request) -> JSONResponse:
    body = await read_json(request, NoteRequest)
    path = find_run(request, body.run)
    try:
        await run_in_threadpool(write_note, path, body.text)
    except OSError as error:
        raise HTTPException(409, f"{body.run}: the note cannot be written: {error.strerror}") from None
    return JSONResponse({"note": body.text})


async def stop(request: Request) -> JSONResponse:
    """Ask the training process to save and stop, as Ctrl-C does."""
    body = await read_json(request, RunRequest)
    path = find_run(request, body.run)
    process = Run.training_process(path)
    if not process:
        raise HTTPException(409, f"{body.run} is not being trained")
    try:
        os.kill(process, signal.SIGINT)
    except OSError as error:
        raise HTTPException(409, f"{body.run}: the process {process} cannot be stopped: {error.strerror}") from None
    return JSONResponse({"stopped": process})


async def resume(request: Request) -> JSONResponse:
    """Continue a stopped training in a process of its own."""
    body = await read_json(request, RunRequest)
    path = find_run(request, body.run)
    if Run.is_training(path):
        raise HTTPException(409, f"{body.run} is being trained already")
    command = [sys.executable, "-m", "seqloom", "train", "--resume", str(path), "--quiet"]
    try:
        command += request.app.state.layers.options(path)
    except ValueError as error:  # the run is damaged, or its custom layer is not known
        raise HTTPException(409, str(error)) from None
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(  # noqa: S603  our own command with a folder of the table
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
        )
        while process.poll() is None:
            if Run.is_training(path):
                threading.Thread(target=process.wait, daemon=True).start()  # so that no zombie is left when it ends
                return JSONResponse({"process": process.pid})
            await asyncio.sleep(0.1)
        errors.seek(0)
        message = errors.read().decode(errors="replace").strip()
    if process.returncode:
        raise HTTPException(409, message or f"{body.run} cannot be resumed")
    return JSONResponse({"process": process.pid})
