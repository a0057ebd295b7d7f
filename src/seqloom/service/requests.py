"""Requests: bodies in JSON as typed objects, uploaded files, and errors as answers."""

import logging
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import from_json
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from seqloom.config.errors import argument_error
from seqloom.service.guard import error_body
from seqloom.service.served_models import ModelStore, ServedModel
from seqloom.service.settings import MEGABYTE, ServiceSettings
from seqloom.service.worker import Overloaded

logger = logging.getLogger("seqloom.service")

MAX_KEYS = 100  # of an object; each unknown one would be an error of its own
Body = TypeVar("Body", bound="RequestBody")


class RequestBody(BaseModel):
    """The JSON of a request; unknown keys are refused, so that a misspelled one is noticed.

    Lists have ``fail_fast``: a million wrong elements are one error, which takes no time to describe.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _limit_keys(cls, values: Any) -> Any:
        if isinstance(values, dict) and len(values) > MAX_KEYS:
            raise ValueError(f"expected at most {MAX_KEYS} keys, found {len(values):,}")
        return values


@dataclass(frozen=True)
class Upload:
    """A file of a form."""

    name: str
    content: bytes


def find_model(request: Request, name: str) -> ServedModel[Any]:
    """The model that a request names; the only one if it names none."""
    store: ModelStore = request.app.state.store
    model = store.find(name)
    if model is None:
        known = ", ".join(store.models)
        raise HTTPException(404, f"no model {name!r}; there are: {known}" if name else f"name the model: {known}")
    return model


def find_version(request: Request) -> ServedModel[Any]:
    """The model of a path, which may also name a version: only the current one is there."""
    model = find_model(request, request.path_params["model"])
    version = request.path_params.get("version", model.current.version)
    if version != model.current.version:
        raise HTTPException(404, f"no version {version!r} of the model {model.name}; there is: {model.current.version}")
    return model


async def read_json(request: Request, body: type[Body]) -> Body:
    """The body of a request as a typed object; refused if it is too large, no JSON, or of another form."""
    return parse_json(await read_content(request), body)


async def read_content(request: Request) -> bytes:
    """The bytes of a body in JSON; refused as soon as there are too many."""
    settings: ServiceSettings = request.app.state.settings
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > settings.max_json:
            raise HTTPException(413, f"the body is limited to {settings.max_json / MEGABYTE:g} MB")
    return content


def parse_json(content: bytes, body: type[Body]) -> Body:
    """JSON as a typed object; refused if it is none, or of another form."""
    try:
        values = from_json(content, allow_inf_nan=False)  # limits the depth, too
    except ValueError as error:
        raise HTTPException(400, f"the body is not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise HTTPException(400, f"the body: expected a JSON object, found {type(values).__name__}")
    try:
        return body.model_validate(values)
    except ValidationError as error:
        raise HTTPException(422, str(argument_error("request", error))) from None


async def read_form(request: Request, *, fields: frozenset[str]) -> tuple[list[Upload], dict[str, str]]:
    """The files of a form, called ``file``, and its other fields."""
    settings: ServiceSettings = request.app.state.settings
    async with request.form(max_files=settings.max_inputs, max_fields=20, max_part_size=MEGABYTE) as form:
        uploads, texts = [], {}
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                if name not in ("file", "file[]"):
                    raise HTTPException(422, f'the file of the form is called "file", found {name!r}')
                uploads.append(Upload(value.filename or "", await value.read()))
            elif name.removesuffix("[]") not in fields:
                raise HTTPException(422, f"unknown field {name!r}; allowed: file, {', '.join(sorted(fields))}")
            else:
                texts[name.removesuffix("[]")] = value
    if not uploads:
        raise HTTPException(422, 'the form has no file: expected one called "file"')
    return uploads, texts


async def read_uploads(model: ServedModel[Any], uploads: list[Upload]) -> list[Any]:
    """The examples of uploaded files, decoded in another thread; Overloaded if too many inputs wait already."""
    model.worker.admit(len(uploads))  # before they are decoded: a refusal costs nothing
    examples = []
    for upload in uploads:
        examples += await run_in_threadpool(model.read_file, upload.content, upload.name)
    return examples


def is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").lower().startswith("multipart/form-data")


async def answer_error(request: Request, error: Exception) -> JSONResponse:
    """An exception of a route as an answer."""
    status, message, headers = 500, "internal error; the log of the service says more", {}
    match error:
        case HTTPException():
            status, message, headers = error.status_code, error.detail, dict(error.headers or {})
        case Overloaded():
            status, message, headers = 503, "too many inputs wait; try again later", {"Retry-After": "1"}
        case ValueError() | TypeError():  # what the model says about an input, as on the command line
            status, message = 422, str(error)
        case _:
            logger.error("internal error", exc_info=error)
    body: Any = error_body(message, status)
    if request.url.path.startswith("/v2/"):  # the Open Inference Protocol has its own form
        body = {"error": message}
    return JSONResponse(body, status_code=status, headers=headers)
