"""What a model says to an input, and what happens inside it, for the pages Try and Inside."""

import asyncio
import json
import struct
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from seqloom.insight.beam_tree import KEPT, PRUNED, BeamNode
from seqloom.insight.gates import LabelledTrace
from seqloom.model import load
from seqloom.service.predictions import Input
from seqloom.service.requests import RequestBody, is_form, read_form, read_json, read_uploads
from seqloom.service.served_runs import ServedRun
from seqloom.service.settings import ServiceSettings
from seqloom.studio.run_pages import find_run
from seqloom.terminal import json_value

KEPT_MODELS = 4
MAX_TRACED = 2_000  # time steps whose gates are sent


class TryRequest(RequestBody):
    """An input to predict from."""

    run: str
    input: Input
    search: str = ""


class InsideRequest(RequestBody):
    """An input to look at from inside."""

    run: str
    input: Input
    method: str = Field("", description="How to compute which inputs mattered.")
    target: str = ""
    word: str = ""
    search: str = ""
    beam: bool = False


class OpenModels:
    """The models that were used last, each with its thread."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
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
            model = await run_in_threadpool(ServedRun, identity, path, load, self.settings)
            self._models[identity] = model, asyncio.create_task(model.worker.run())
            if len(self._models) > KEPT_MODELS:
                _, (_, task) = self._models.popitem(last=False)
                task.cancel()
            return model

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
    """What the model reads, and a few inputs to begin with."""
    model = await open_model(request, request.query_params.get("run", ""))
    task = model.model.task
    return JSONResponse(
        {
            **model.describe(),
            "reads_text": task.reads_text,
            "uses_search": task.uses_search,
            "parameters": sum(parameter.numel() for parameter in model.model.module.parameters()),
        }
    )


async def predict(request: Request) -> JSONResponse:
    if is_form(request):
        uploads, fields = await read_form(request, fields=frozenset({"run", "search"}))
        model = await open_model(request, fields.get("run", ""))
        examples, search = await read_uploads(model, uploads), fields.get("search", "")
    else:
        body = await read_json(request, TryRequest)
        model = await open_model(request, body.run)
        examples, search = await run_in_threadpool(model.read, [body.input]), body.search
    (prediction,) = await model.predict(examples, search=search)
    return JSONResponse({"version": model.current.version, "prediction": prediction})


async def inside(request: Request) -> Response:
    """An explanation and the gates of all recurrent layers: JSON, then the numbers of the gates as float32."""
    if is_form(request):
        uploads, fields = await read_form(request, fields=frozenset({"run"}))
        body = InsideRequest(run=fields.get("run", ""), input="")
        model = await open_model(request, body.run)
        (example,) = await read_uploads(model, uploads)
    else:
        body = await read_json(request, InsideRequest)
        model = await open_model(request, body.run)
        (example,) = await run_in_threadpool(model.read, [body.input])
    loaded = model.with_search(body.search)

    def compute() -> bytes:
        explanation = loaded.model.explain(
            example, method=body.method, target=body.target, word=body.word, beam=body.beam, heads=True
        )
        with torch.no_grad():
            traces = loaded.model.task.trace_gates(loaded.model.module, example)
        header, values = _pack_traces(traces)
        content = {
            "version": loaded.version,
            "tokens": loaded.model.task.input_tokens(example),
            "headline": explanation.headline,
            "explanation": {
                **explanation.to_dict(),
                "prediction": loaded.model.task.to_json(explanation.prediction),
                "beam": [_branch(node) for node in explanation.beam],
            },
            "layers": header,
        }
        return _pack(json_value(content), values)

    return Response(await model.worker.call(compute), media_type="application/octet-stream")


def _branch(node: BeamNode) -> dict[str, Any]:
    """A hypothesis of a search with its end in words."""
    return {
        "number": node.number,
        "parent": node.parent,
        "token": node.token,
        "score": node.score,
        "end": (KEPT | PRUNED).get(node.status, node.status),
        "kept": node.status in KEPT,
    }


def _pack_traces(traces: list[LabelledTrace]) -> tuple[list[dict[str, Any]], NDArray[np.float32]]:
    """The layers and where the numbers of each gate begin; (units, time) for each, one after the other."""
    layers, blocks, start = [], [], 0
    for trace, names in traces:
        parts = []
        for kind, tensors in (("gate", trace.gates), ("state", trace.states)):
            for name, tensor in tensors.items():
                values = tensor[0, :MAX_TRACED].flatten(1).T.contiguous().float().cpu().numpy()  # (units, T)
                parts.append({"name": name, "kind": kind, "units": len(values), "start": start})
                parts[-1]["effect"] = trace.effects.get(name, "")
                blocks.append(values.reshape(-1))
                start += values.size
        layers.append(
            {
                "name": trace.name,
                "steps": min(trace.length, MAX_TRACED),
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
