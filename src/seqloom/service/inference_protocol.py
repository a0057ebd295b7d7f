"""``/v2``: the Open Inference Protocol, which KServe, Triton and their clients speak."""

import json
from typing import Any, Literal

import numpy as np
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from seqloom.service.binary_tensors import decode_tensor, encode_texts
from seqloom.service.requests import RequestBody, find_version, parse_json, read_content

BYTES, NUMBERS = "BYTES", ("FP32", "FP64", "INT64", "INT32")
INPUT, OUTPUT = "input", "prediction"
HEADER_LENGTH = "Inference-Header-Content-Length"


class TensorRequest(RequestBody):
    """An input tensor."""

    name: str
    shape: list[int] = Field(max_length=4, fail_fast=True)
    datatype: Literal["BYTES", "FP32", "FP64", "INT64", "INT32"]
    data: list[Any] | None = Field(None, description="Values, nested or flat; none if they follow as bytes.")
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
    model = find_version(request)
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


async def infer(request: Request) -> Response:
    model = find_version(request)
    content = await read_content(request)
    header = _header_length(request, content)
    body = parse_json(content[:header], InferRequest)
    (tensor,) = body.inputs
    if unknown := [output.name for output in body.outputs if output.name != OUTPUT]:
        raise HTTPException(422, f"unknown output {unknown[0]!r}; there is: {OUTPUT}")
    if tensor.data is None:
        data = decode_tensor(tensor.datatype, content[header:], tensor.parameters.get("binary_data_size"))
        tensor = tensor.model_copy(update={"data": data})
    elif header < len(content):
        raise HTTPException(422, "bytes follow the JSON, but no input has binary_data_size instead of data")
    values = _values(tensor)
    if len(values) > request.app.state.settings.max_inputs:
        raise HTTPException(413, f"a request is limited to {request.app.state.settings.max_inputs} inputs")
    model.worker.admit(len(values))  # before they are read: a refusal costs nothing
    examples = await run_in_threadpool(model.read, values)
    loaded = model.current
    predictions = await model.worker.predict(loaded.predict, examples)
    texts = [json.dumps(prediction, ensure_ascii=False) for prediction in predictions]
    output: dict[str, Any] = {"name": OUTPUT, "datatype": BYTES, "shape": [len(predictions)]}
    answer: dict[str, Any] = {"model_name": model.name, "model_version": loaded.version, "outputs": [output]}
    if body.id:
        answer["id"] = body.id
    if not _wants_bytes(body):
        output["data"] = texts
        return JSONResponse(answer)
    tail = encode_texts(texts)
    output["parameters"] = {"binary_data_size": len(tail)}
    head = json.dumps(answer).encode()
    return Response(head + tail, media_type="application/octet-stream", headers={HEADER_LENGTH: str(len(head))})


def _header_length(request: Request, content: bytes) -> int:
    """The bytes of the JSON, which the values of a tensor may follow."""
    given = request.headers.get(HEADER_LENGTH)
    if given is None:
        return len(content)
    if not given.isdecimal() or int(given) > len(content):
        raise HTTPException(400, f"{HEADER_LENGTH}: expected a number up to {len(content)}, got {given!r:.60}")
    return int(given)


def _wants_bytes(body: InferRequest) -> bool:
    """Whether the output is asked for as bytes, by itself or by the setting for all."""
    default = body.parameters.get("binary_data_output", False)
    return any(output.parameters.get("binary_data", default) for output in body.outputs or [OutputRequest(name=OUTPUT)])


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
