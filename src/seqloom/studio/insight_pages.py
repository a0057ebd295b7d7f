"""The doctor and the lab in the studio."""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from seqloom import lab
from seqloom.diagnosis.run_doctor import doctor_run
from seqloom.lab.runner import RESULTS, describe_all
from seqloom.run import Run
from seqloom.service.requests import RequestBody, read_json
from seqloom.studio.model_pages import dev_data, open_model
from seqloom.studio.run_pages import find_run


class DoctorRequest(RequestBody):
    """A run to examine."""

    run: str
    reach: int = Field(
        0, ge=0, le=100_000, description="Steps back that the model has to see (0: as the data suggest)."
    )


class LabRequest(RequestBody):
    """An experiment to run."""

    name: str
    preset: Literal["quick", "default"] = "default"


async def examine(request: Request) -> JSONResponse:
    """What the doctor says about a run; one at a time, since it takes seconds of computing time."""
    body = await read_json(request, DoctorRequest)
    path = find_run(request, body.run)
    async with request.app.state.examining:
        layer = request.app.state.layers.find(path).factory
        examples = await _dev_examples(request, body.run, path)
        diagnosis = await run_in_threadpool(doctor_run, path, layer=layer, reach=body.reach, examples=examples)
    return JSONResponse(diagnosis.to_dict())


async def _dev_examples(request: Request, identity: str, path: Path) -> list[Any]:
    """The dev examples of a run, as the other pages read them; none before its first checkpoint."""
    run = Run.open(path)
    if not (run.saved("best") or run.saved("last")):
        return []
    return (await run_in_threadpool(dev_data, request, await open_model(request, identity))).examples


async def list_experiments(request: Request) -> JSONResponse:
    """All experiments, with the results of those that were run in this studio."""
    results: dict[str, dict[str, Any]] = request.app.state.lab_results
    experiments = await run_in_threadpool(describe_all)
    shown = [{**each, "result": results.get(each["name"], {}).get("content")} for each in experiments]
    return JSONResponse({"experiments": shown})


async def run_experiment(request: Request) -> JSONResponse:
    """Run an experiment in a process of its own, which ends with the request."""
    body = await read_json(request, LabRequest)
    if body.name not in lab.names():
        raise HTTPException(404, f"there is no experiment {body.name!r}")
    with tempfile.TemporaryDirectory(prefix="seqloom-lab-") as folder:
        output = Path(folder) / "results"
        options = ["--quick"] if body.preset == "quick" else []
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "seqloom", "lab", body.name, *options, "--json", "--output", str(output)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, printed = await process.communicate()
        finally:
            if process.returncode is None:  # the client has gone
                process.kill()
        if process.returncode:
            raise HTTPException(500, printed.decode(errors="replace").strip() or f"{body.name} failed")
        content = json.loads((output / RESULTS).read_text())
        figure = output / "figure.svg"
        request.app.state.lab_results[body.name] = {
            "content": content,
            "figure": figure.read_bytes() if figure.is_file() else b"",
        }
    return JSONResponse(content)


async def show_figure(request: Request) -> Response:
    """The figure of an experiment that was run in this studio."""
    result = request.app.state.lab_results.get(request.query_params.get("name", ""))
    if not result or not result["figure"]:
        raise HTTPException(404, "there is no figure of this experiment yet")
    return Response(result["figure"], media_type="image/svg+xml")
