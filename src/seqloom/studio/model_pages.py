"""What a model says to an input, and what happens inside it, for the pages Try and Inside."""

import asyncio
import json
import struct
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from seqloom.answers import with_warning
from seqloom.config.errors import argument_error
from seqloom.data.drawing_style import drawing_style, polarity_warning
from seqloom.data.input_media import input_kind, input_media
from seqloom.evaluation import predict_all
from seqloom.insight.beam_tree import KEPT, PRUNED, BeamNode
from seqloom.insight.explanation import Explanation
from seqloom.insight.gates import LabelledTrace
from seqloom.layers.layer import count_parameters
from seqloom.model import Model, load
from seqloom.service.predictions import Input
from seqloom.service.requests import RequestBody, is_form, read_form, read_json, read_uploads
from seqloom.service.served_runs import ServedRun
from seqloom.service.settings import ServiceSettings
from seqloom.studio.custom_layers import CustomLayers
from seqloom.studio.dev_data import Cache, DevData, read_dev_data
from seqloom.studio.run_pages import find_run
from seqloom.studio.searches import describe_searches
from seqloom.studio.thumbnails import thumbnail
from seqloom.tasks.task import Task
from seqloom.terminal import json_value

KEPT_MODELS = 4
MAX_TRACED = 2_000  # time steps whose gates are sent
QUICK_STEPS = 300
"""Inputs of more steps are explained by a single gradient, unless the user chooses a method."""
SHOWN_EXAMPLES = 12
GOLDEN_RATIO = (5**0.5 - 1) / 2
MAX_TEXT = 400  # characters of an example in a list


class InputRequest(RequestBody):
    """An input of a model: a text or numbers, or an example of the dev data of its run."""

    run: str
    input: Input = ""
    example: int | None = Field(None, ge=0, description="Number of a dev example, from 0, in place of the input.")
    search: str = ""


class InsideRequest(InputRequest):
    """An input to look at from inside."""

    method: str = Field("", description="How to compute which inputs mattered.")
    target: str = ""
    word: str | int = Field("", description="Word whose label is explained, or its position from 1 (taggers only).")
    beam: bool = False


class OpenModels:
    """The models that were used last, each with its thread."""

    def __init__(self, settings: ServiceSettings, layers: CustomLayers) -> None:
        self.settings, self.layers = settings, layers
        self._models: OrderedDict[str, tuple[ServedRun, asyncio.Task[None]]] = OrderedDict()
        self._loading = asyncio.Lock()

    async def open(self, identity: str, path: Path) -> ServedRun:
        """The model of a run, at its best checkpoint."""
        async with self._loading:
            if identity in self._models:
                self._models.move_to_end(identity)
                model = self._models[identity][0]
                await model.reload_if_changed()
                return model
            model = await run_in_threadpool(ServedRun, identity, path, self._load, self.settings)
            self._models[identity] = model, asyncio.create_task(model.worker.run())
            if len(self._models) > KEPT_MODELS:
                _, (_, task) = self._models.popitem(last=False)
                task.cancel()
            return model

    def _load(self, path: Path) -> Model:
        return load(path, layer=self.layers.find(path).factory)

    async def close(self) -> None:
        """Stop all threads."""
        for _, task in self._models.values():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def open_model(request: Request, identity: str) -> ServedRun:
    """The model that a request names."""
    models: OpenModels = request.app.state.models
    return await models.open(identity, find_run(request, identity))


async def describe_model(request: Request) -> JSONResponse:
    """What the model reads, and some dev examples to begin with."""
    model = await open_model(request, request.query_params.get("run", ""))
    task = model.model.config.task
    data = await run_in_threadpool(dev_data, request, model)
    chosen = _spread(len(data.examples))
    number = request.query_params.get("example", "")  # that is shown
    if number.isdecimal() and int(number) < len(data.examples) and int(number) not in chosen:
        chosen.append(int(number))
    content = {
        **model.describe(),
        "reads_text": task.reads_text,
        "uses_search": task.uses_search,
        "searches": describe_searches(task),
        "can_attribute": task.can_attribute,
        "generates": generates(task),
        "writes_text": getattr(task, "condition", "") == "text",  # a model of handwriting
        "input_kind": "music"
        if task.generates == "music"
        else input_kind(data.examples[0])
        if data.examples and not task.reads_text
        else "",
        **drawing_style(() if task.reads_text else data.examples),
        "parameters": count_parameters(model.model.module),
        "examples": [describe_example(task, data.examples, row) for row in chosen],
        "pictures": has_pictures(task, data.examples),
        "dev_examples": len(data.examples),
        "note": data.note,
    }
    return JSONResponse(json_value(content))


def _spread(count: int) -> list[int]:
    """Some of ``count`` numbers, spread without a period, so that sorted labels all occur; 0 is among them."""
    return sorted({int(number * GOLDEN_RATIO % 1 * count) for number in range(SHOWN_EXAMPLES)}) if count else []


def generates(task: Task) -> str:
    """What the model generates; empty: nothing, also where a language model only fills gaps in texts."""
    return task.generates or "" if getattr(task, "objective", "causal") == "causal" else ""


def dev_data(request: Request, model: ServedRun) -> DevData:
    """The dev data of a run, read once."""
    cache: Cache = request.app.state.dev_data
    return cache.get((model.name, model.current.version), lambda: read_dev_data(model.model))


async def predict_dev(request: Request, model: ServedRun, examples: Sequence[Any]) -> list[Any]:
    """The predictions of a model for the dev examples of its run, computed once."""
    cache: Cache = request.app.state.predictions
    key = model.name, model.current.version

    def predict() -> list[Any]:
        loaded = model.model
        return cache.get(key, lambda: predict_all(loaded.config, loaded.module, examples))

    predictions: list[Any] = await model.worker.call(predict)
    return predictions


def describe_example(task: Task, examples: Sequence[Any], row: int) -> dict[str, Any]:
    """A dev example for people."""
    text, target = task.example_texts(examples[row])
    place = str(examples[row].location)
    return {"example": row, "input": text[:MAX_TEXT], "target": target[:MAX_TEXT], "place": place}


Body = TypeVar("Body", bound=InputRequest)


async def read_input(request: Request, kind: type[Body]) -> tuple[Body, ServedRun, Any]:
    """The request, the model that it names, and the example that it is about: of JSON, a file, or the dev data."""
    if is_form(request):
        uploads, fields = await read_form(request, fields=frozenset(kind.model_fields) - {"input", "example"})
        try:
            body = kind.model_validate(fields)
        except ValidationError as error:
            raise HTTPException(422, str(argument_error("form", error))) from None
        model = await open_model(request, body.run)
        (example,) = await read_uploads(model, uploads)
        return body, model, example
    body = await read_json(request, kind)
    model = await open_model(request, body.run)
    if body.example is None:
        (example,) = await run_in_threadpool(model.read, [body.input])
        return body, model, example
    examples = (await run_in_threadpool(dev_data, request, model)).examples
    if body.example >= len(examples):
        raise HTTPException(404, f"{body.run} has no dev example {body.example}: it has {len(examples):,}")
    return body, model, examples[body.example]


async def predict(request: Request) -> JSONResponse:
    body, model, example = await read_input(request, InputRequest)
    (prediction,) = await model.predict([example], search=body.search)
    if is_form(request):
        examples = (await run_in_threadpool(dev_data, request, model)).examples
        prediction = with_warning(prediction, await run_in_threadpool(polarity_warning, example, examples))
    unknown = unknown_words(model.model.config.task, example)
    return JSONResponse({"version": model.current.version, "prediction": prediction, "unknown": unknown})


def unknown_words(task: Task, example: Any) -> dict[str, Any]:
    """The words of an input that the model reads as <unk>, and what else it reads of them."""
    return {"words": task.unknown_words(example), "read_by": task.reads_unknown_by}


async def show_media(request: Request) -> Response:
    """The picture, the sound or the vectors of an input: JSON, then the numbers as float32."""
    _, _, example = await read_input(request, InputRequest)
    media = await run_in_threadpool(input_media, example, None, None)
    _, values = _pack_traces([], [numbers for _, numbers in media])
    return Response(_pack({"media": _places(media)}, values), media_type="application/octet-stream")


async def show_thumbnail(request: Request) -> Response:
    """A small picture of a dev example that is no text."""
    model = await open_model(request, request.query_params.get("run", ""))
    number = request.query_params.get("example", "")
    examples = (await run_in_threadpool(dev_data, request, model)).examples
    if not number.isdecimal() or int(number) >= len(examples):
        raise HTTPException(404, f"{model.name} has no dev example {number}: it has {len(examples):,}")
    content = await run_in_threadpool(thumbnail, examples[int(number)])
    if content is None:
        raise HTTPException(404, "this example has no picture")
    return Response(content, media_type="image/png", headers={"cache-control": "private, max-age=600"})


def has_pictures(task: Task, examples: Sequence[Any]) -> bool:
    """Whether examples are no texts, so that a small picture says more than their names."""
    return not task.reads_text and bool(examples) and bool(input_kind(examples[0]))


def _places(media: Sequence[tuple[dict[str, Any], NDArray[Any]]]) -> list[dict[str, Any]]:
    """What the media are, with the place of their numbers."""
    ends = np.cumsum([numbers.size for _, numbers in media], dtype=np.int64).tolist()
    return [{**facts, "start": end - numbers.size} for (facts, numbers), end in zip(media, ends, strict=True)]


async def inside(request: Request) -> Response:
    """An explanation and the gates of all recurrent layers: JSON, then the numbers of the gates as float32."""
    body, model, example = await read_input(request, InsideRequest)
    loaded = model.with_search(body.search)

    def compute() -> bytes:
        task = loaded.model.task
        method = body.method or ("input_x_gradient" if task.steps(example) > QUICK_STEPS else "")
        try:
            explanation = loaded.model.explain(
                example, method=method, target=body.target, word=body.word, beam=body.beam, heads=True, gates=True
            )
        except TypeError:  # the model cannot show which inputs mattered
            if body.method or not method:
                raise
            explanation = loaded.model.explain(example, method="none", beam=body.beam, heads=True, gates=True)
        if task.explained_together:
            explanation = _with_word_map(loaded.model, explanation, example)
        signal = None if explanation.attribution is None else explanation.attribution.signal
        media = input_media(example, explanation.image, signal)
        header, values = _pack_traces(explanation.gates, [numbers for _, numbers in media])
        content = {
            "version": loaded.version,
            "tokens": task.input_tokens(example),
            "text": task.example_texts(example)[0].replace("\t", " "),
            "unknown": unknown_words(task, example),
            "media": _places(media),
            "headline": explanation.headline,
            "explanation": {
                **explanation.to_dict(),
                "prediction": task.to_json(explanation.prediction),
                "beam": [_branch(node) for node in explanation.beam],
            },
            "layers": header,
        }
        return _pack(json_value(content), values)

    return Response(await model.worker.call(compute), media_type="application/octet-stream")


def _with_word_map(model: Model, explanation: Explanation, example: Any) -> Explanation:
    """The same with the neighbourhood of the words; without, if one of them has no vector, which the answer says."""
    try:
        together = model.task.explain_together(model.module, [example])
    except ValueError:
        return replace(explanation, notes=[])
    return explanation if together is None else replace(together, prediction=explanation.prediction)


def _branch(node: BeamNode) -> dict[str, Any]:
    """A hypothesis of a search with its end in words."""
    return {
        "number": node.number,
        "parent": node.parent,
        "token": node.token,
        "score": node.score,
        "end": (KEPT | PRUNED).get(node.status, node.status),
        "kept": node.status in KEPT,
        "best": node.status == "in_nbest",
    }


def _pack_traces(
    traces: list[LabelledTrace], before: Sequence[NDArray[Any]]
) -> tuple[list[dict[str, Any]], NDArray[np.float32]]:
    """The layers and where the numbers of each gate begin, (units, time) for each; other numbers come before them."""
    blocks = [numbers.astype(np.float32).reshape(-1) for numbers in before]
    layers, start = [], sum(map(len, blocks))
    for trace, names in traces:
        parts = []
        for kind, tensors in (("gate", trace.gates), ("state", trace.states)):
            for name, tensor in tensors.items():
                steps = tensor[0, :MAX_TRACED].float().cpu().numpy()
                values = steps.T.reshape(-1, len(steps))  # (units, T), of images (units × rows, T)
                parts.append({"name": name, "kind": kind, "units": len(values), "start": start})
                parts[-1]["effect"] = trace.effects.get(name, "")
                blocks.append(values.reshape(-1))
                start += values.size
        layers.append(
            {
                "name": trace.name,
                "steps": min(trace.length, MAX_TRACED),
                "rows": trace.rows,
                "names": names[:MAX_TRACED],
                "step_seconds": trace.step_seconds,
                "parts": parts,
            }
        )
    joined = np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
    return layers, joined.astype(np.float32)


def _pack(content: Any, values: NDArray[np.float32]) -> bytes:
    """A length (32 bits, little-endian), JSON of that length, padding to four bytes, then the numbers."""
    text = json.dumps(content, allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    return struct.pack("<I", len(text)) + text + values.tobytes()
