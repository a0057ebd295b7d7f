"""``/v2``: the Open Inference Protocol, which KServe, Triton and their clients speak."""

import json
from typing import Any, Literal

import numpy as np
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from seqloom.service.requests import RequestBody, find_model, read_json

BYTES, NUMBERS = "BYTES", ("FP32", "FP64", "INT64", "INT32")
INPUT, OUTPUT = "input", "prediction"


class TensorRequest(RequestBody):
    """An input tensor."""

    name: str
    shape: list[int] = Field(max_length=4, fail_fast=True)
    datatype: Literal["BYTES", "FP32", "FP64", "INT64", "INT32"]
    data: list[Any] = Field(description="Values, nested or flat.")
    parameters: dict[str, Any] = Field(default_factory=dict)


class OutputRequest(RequestBody):
    """An output that is asked for."""

    name: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class InferRequest(RequestBody):
    """Inputs as tensors."""

    id: str = ""
    inputs: list[TensorRequest] = Field(min_length=1, max_length=1, fail_fast=True)
    outputs: list[OutputRequest] = Field(default_factory=list, max_length=1, fail_fast=True)
    parameters: dict[str, Any] = Field(default_factory=dict)


async def model_metadata(request: Request) -> JSONResponse:
    model = find_model(request, request.path_params["model"])
    reads_text = model.current.reads_text
    return JSONResponse(
        {
            "name": model.name,
            "versions": [model.current.version],
            "platform": "seqloom",
            "inputs": [
                {"name": INPUT, "datatype": BYTES, "shape": [-1]}
                if reads_text
                else {"name": INPUT, "datatype": "FP32", "shape": [-1, -1, -1]}
            ],
            "outputs": [{"name": OUTPUT, "datatype": BYTES, "shape": [-1]}],
        }
    )


async def infer(request: Request) -> JSONResponse:
    if "inference-header-content-length" in request.headers:
        raise HTTPException(422, "binary tensors are not supported: send JSON (binary_data=False)")
    model = find_model(request, request.path_params["model"])
    body = await read_json(request, InferRequest)
    (tensor,) = body.inputs
    if unknown := [output.name for output in body.outputs if output.name != OUTPUT]:
        raise HTTPException(422, f"unknown output {unknown[0]!r}; there is: {OUTPUT}")
    if any(output.parameters.get("binary_data") for output in body.outputs):
        raise HTTPException(422, "binary outputs are not supported: ask for JSON (binary_data=False)")
    values = _values(tensor)
    if len(values) > request.app.state.settings.max_inputs:
        raise HTTPException(413, f"a request is limited to {request.app.state.settings.max_inputs} inputs")
    model.worker.admit(len(values))  # before they are read: a refusal costs nothing
    examples = await run_in_threadpool(model.read, values)
    loaded = model.current
    predictions = await model.worker.predict(loaded.predict, examples)
    output = {
        "name": OUTPUT,
        "datatype": BYTES,
        "shape": [len(predictions)],
        "data": [json.dumps(prediction, ensure_ascii=False) for prediction in predictions],
    }
    answer: dict[str, Any] = {"model_name": model.name, "model_version": loaded.version, "outputs": [output]}
    return JSONResponse({**answer, "id": body.id} if body.id else answer)


def _values(tensor: TensorRequest) -> list[Any]:
    """The inputs of a tensor: texts of shape (n,) or (n, 1), or numbers of shape (n, time, features)."""
    if tensor.name != INPUT:
        raise HTTPException(422, f"unknown input {tensor.name!r}; there is: {INPUT}")
    if tensor.datatype == BYTES:
        values = np.array(tensor.data, dtype=object).reshape(-1).tolist()
        count = int(np.prod(tensor.shape))
        if not all(isinstance(value, str) for value in values) or len(values) != count:
            raise HTTPException(422, f"expected {count} texts, as the shape {tensor.shape} says")
        return values
    if len(tensor.shape) not in (2, 3):
        raise HTTPException(422, f"expected a shape (inputs, time) or (inputs, time, features), got {tensor.shape}")
    try:
        array = np.array(tensor.data, dtype=np.float64).reshape(tensor.shape)
    except (ValueError, TypeError, OverflowError):
        raise HTTPException(422, f"the data do not have the shape {tensor.shape}") from None
    return [row.tolist() for row in array]
