"""``/v1/models``, ``/v1/predict`` and ``/v1/explain``: any model, any input."""

from functools import partial
from typing import Any

from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from seqloom.service.requests import RequestBody, find_model, is_form, read_form, read_json, read_uploads
from seqloom.service.served_models import ModelStore, ServedModel

Input = str | list[Any] | dict[str, Any]
"""A text, a sequence of numbers or rows, or a table by columns."""
SHORT = 2000  # characters that are split into tokens sooner than another thread would begin


class ModelDescription(BaseModel):
    """A model of the service."""

    id: str = Field(description="Name, by which requests choose the model.")
    object: str = "model"
    created: int = Field(description="When the model was loaded, in Unix time.")
    owned_by: str = "seqloom"
    task: str
    version: str = Field(description="Beginning of the SHA-256 of the manifest of the checkpoint.")
    reads: str = Field(description="What an input is.")


class ModelList(BaseModel):
    """All models."""

    object: str = "list"
    data: list[ModelDescription]


class PredictRequest(RequestBody):
    """Inputs to predict from."""

    model: str = Field("", description="Name of the model; may be omitted if there is only one.")
    inputs: list[Input] = Field(
        min_length=1,
        fail_fast=True,
        description="Texts; pairs of texts, [first, second]; or sequences of numbers or of rows of numbers; for "
        "forecasts also tables, an object with a list for each column. Files of sound, images or videos are sent as a "
        "form with parts called file.",
    )
    search: str = Field("", description='Decoding method, such as "beam size=5 nbest=3".')


class PredictResponse(BaseModel):
    """One prediction for each input, in the same order."""

    model: str
    version: str
    predictions: list[dict[str, Any]] = Field(description="Predictions in the form of seqloom predict --json.")


class ExplainRequest(RequestBody):
    """An input to explain."""

    model: str = Field("", description="Name of the model; may be omitted if there is only one.")
    input: Input
    method: str = Field("", description="integrated_gradients, input_x_gradient, occlusion or none.")
    target: str = Field("", description="Label to explain; by default the predicted one.")
    word: str = Field("", description="tag: word whose label is explained, or its position from 1.")


class ExplainResponse(BaseModel):
    """A prediction and what led to it."""

    model: str
    version: str
    explanation: dict[str, Any] = Field(description="Explanation in the form of seqloom explain --json.")


async def list_models(request: Request) -> JSONResponse:
    store: ModelStore = request.app.state.store
    return JSONResponse({"object": "list", "data": [model.describe() for model in store.models.values()]})


async def describe_model(request: Request) -> JSONResponse:
    return JSONResponse(find_model(request, request.path_params["model"]).describe())


async def predict(request: Request) -> JSONResponse:
    if is_form(request):
        uploads, fields = await read_form(request, fields=frozenset({"model", "search"}))
        model, search = find_model(request, fields.get("model", "")), fields.get("search", "")
        examples = await read_uploads(model, uploads)
    else:
        body = await read_json(request, PredictRequest)
        model, search = find_model(request, body.model), body.search
        examples = await _read_inputs(request, model, body.inputs)
    loaded = model.with_search(search)
    predictions = await model.worker.predict(loaded.predict, examples)
    return JSONResponse({"model": model.name, "version": loaded.version, "predictions": predictions})


async def _read_inputs(request: Request, model: ServedModel[Any], inputs: list[Input]) -> list[Any]:
    limit = request.app.state.settings.max_inputs
    if len(inputs) > limit:
        raise HTTPException(413, f"a request is limited to {limit} inputs, found {len(inputs)}")
    model.worker.admit(len(inputs))  # before they are read: a refusal costs nothing
    if all(isinstance(each, str) for each in inputs) and sum(map(len, inputs)) <= SHORT:
        return model.read(inputs)
    return await run_in_threadpool(model.read, inputs)


async def explain(request: Request) -> JSONResponse:
    body = await read_json(request, ExplainRequest)
    model = find_model(request, body.model)
    (example,) = await _read_inputs(request, model, [body.input])
    loaded = model.current

    compute = partial(loaded.explain, example, method=body.method, target=body.target, word=body.word)
    explanation = await model.worker.call(compute)
    return JSONResponse({"model": model.name, "version": loaded.version, "explanation": explanation})
