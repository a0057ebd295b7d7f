"""All dev examples of a run with the answers of its model, for the page Data."""

from dataclasses import asdict

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from seqloom.studio.answer_table import tabulate
from seqloom.studio.model_pages import dev_data, has_pictures, open_model, predict_dev
from seqloom.terminal import json_value


async def list_answers(request: Request) -> JSONResponse:
    """The dev examples of a run, each with the answer and its score; and how often which labels are confused."""
    model = await open_model(request, request.query_params.get("run", ""))
    data = await run_in_threadpool(dev_data, request, model)
    if not data.examples:
        raise HTTPException(409, data.note or f"{model.name} has no dev data")
    predictions = await predict_dev(request, model, data.examples)
    task = model.model.config.task
    table = await run_in_threadpool(tabulate, task, predictions, data.examples)
    facts = {"reads_text": task.reads_text, "pictures": has_pictures(task, data.examples), "note": data.note}
    return JSONResponse(json_value({**asdict(table), **facts}))
