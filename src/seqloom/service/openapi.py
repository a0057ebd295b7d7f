"""The description of the service as OpenAPI 3.1, made from the types of requests and answers."""

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from seqloom import __version__
from seqloom.service.audio import TranscriptionForm
from seqloom.service.completions import CompletionRequest
from seqloom.service.inference_protocol import InferRequest
from seqloom.service.predictions import (
    ExplainRequest,
    ExplainResponse,
    ModelDescription,
    ModelList,
    PredictRequest,
    PredictResponse,
)

REFERENCE = "#/components/schemas/{model}"
JSON, FORM = "application/json", "multipart/form-data"
ERRORS = {
    "401": "The token is missing or wrong.",
    "403": "The Host or the Origin is not allowed.",
    "404": "There is no such model.",
    "413": "The request is too large.",
    "422": "The request is invalid; the message says where.",
    "503": "Too many inputs wait; try again later.",
}


class Operation(BaseModel):
    """A route as OpenAPI shows it."""

    path: str
    method: str
    summary: str
    request: type[BaseModel] | None = None
    response: type[BaseModel] | None = None
    form: bool = False


OPERATIONS = (
    Operation(path="/v1/models", method="get", summary="All models.", response=ModelList),
    Operation(path="/v1/models/{model}", method="get", summary="One model.", response=ModelDescription),
    Operation(
        path="/v1/predict", method="post", summary="Predictions.", request=PredictRequest, response=PredictResponse
    ),
    Operation(
        path="/v1/explain",
        method="post",
        summary="A prediction and what led to it.",
        request=ExplainRequest,
        response=ExplainResponse,
    ),
    Operation(
        path="/v1/completions",
        method="post",
        summary="Text of a language model, in the form of the OpenAI API.",
        request=CompletionRequest,
    ),
    Operation(
        path="/v1/audio/transcriptions",
        method="post",
        summary="The transcript of a recording, in the form of the OpenAI API.",
        request=TranscriptionForm,
        form=True,
    ),
    Operation(path="/v2", method="get", summary="Name and version of the service (Open Inference Protocol)."),
    Operation(path="/v2/health/live", method="get", summary="Whether the service runs."),
    Operation(path="/v2/health/ready", method="get", summary="Whether the service accepts requests."),
    Operation(path="/v2/models/{model}", method="get", summary="Inputs and outputs of a model."),
    Operation(path="/v2/models/{model}/ready", method="get", summary="Whether a model accepts requests."),
    Operation(
        path="/v2/models/{model}/infer",
        method="post",
        summary="Predictions by the Open Inference Protocol.",
        request=InferRequest,
    ),
    Operation(path="/metrics", method="get", summary="Figures of the service, in the text format of Prometheus."),
)


def describe() -> dict[str, Any]:
    """The whole document."""
    used = {kind for operation in OPERATIONS for kind in (operation.request, operation.response) if kind}
    ordered = sorted(used, key=lambda kind: kind.__name__)
    schemas, definitions = models_json_schema([(kind, "validation") for kind in ordered], ref_template=REFERENCE)
    references = {kind: schemas[kind, "validation"] for kind in ordered}
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation, references)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Seqloom", "version": __version__, "description": "Predictions of sequence models."},
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _operation(operation: Operation, references: dict[type[BaseModel], Any]) -> dict[str, Any]:
    content: dict[str, Any] = {"description": "The answer."}
    if operation.response is not None:
        content["content"] = {JSON: {"schema": references[operation.response]}}
    described: dict[str, Any] = {
        "summary": operation.summary,
        "responses": {"200": content, **{code: {"description": text} for code, text in ERRORS.items()}},
    }
    if "{model}" in operation.path:
        described["parameters"] = [{"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}]
    if operation.request is not None:
        kind = FORM if operation.form else JSON
        described["requestBody"] = {"required": True, "content": {kind: {"schema": references[operation.request]}}}
    return described
