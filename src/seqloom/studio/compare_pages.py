"""Two runs on the dev data: the paired difference of their scores, and the examples on which they disagree."""

from dataclasses import asdict
from typing import Any

from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from seqloom.comparison.disagreement import compare_predictions
from seqloom.service.requests import RequestBody, read_json
from seqloom.service.served_runs import ServedRun
from seqloom.studio.catalog import Catalog
from seqloom.studio.model_pages import dev_data, has_pictures, open_model, predict_dev
from seqloom.terminal import json_value


class PairRequest(RequestBody):
    """Two runs of one task."""

    runs: list[str] = Field(min_length=2, max_length=2)


async def disagreements(request: Request) -> JSONResponse:
    """How two runs differ on the same dev examples."""
    body = await read_json(request, PairRequest)
    first, second = [await open_model(request, run) for run in body.runs]
    examples, note = await run_in_threadpool(_shared_examples, request, first, second)
    answers = await predict_dev(request, first, examples), await predict_dev(request, second, examples)
    tasks = first.model.config.task, second.model.config.task
    result = await run_in_threadpool(compare_predictions, tasks, answers, examples, most=3 * len(examples))
    return JSONResponse(json_value({**asdict(result), "pictures": has_pictures(tasks[0], examples), "note": note}))


def _shared_examples(request: Request, first: ServedRun, second: ServedRun) -> tuple[list[Any], str]:
    """The dev examples of two runs, which have to be the same, and a note about them."""
    pair = dev_data(request, first), dev_data(request, second)
    for model, data in zip((first, second), pair, strict=True):
        if not data.examples:
            raise HTTPException(409, data.note or f"{model.name} has no dev data")
    catalog: Catalog = request.app.state.catalog
    recorded = [catalog.entry(model.name)[0]["dev_data"] for model in (first, second)]
    places = [[str(example.location) for example in data.examples] for data in pair]
    if recorded[0] != recorded[1] or (not recorded[0] and places[0] != places[1]) or len(places[0]) != len(places[1]):
        raise HTTPException(409, "These runs have different dev data: they cannot be compared example by example.")
    return pair[0].examples, pair[0].note
