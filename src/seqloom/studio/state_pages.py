"""Hidden states in the studio: places with similar ones, what excites a unit, how far back gradients reach."""

from typing import Any

import torch
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from seqloom.diagnosis.gradients import reach_of
from seqloom.diagnosis.recording import record
from seqloom.insight.state_search import LayerStates, Match, Matrix, layer_outputs
from seqloom.model import Model
from seqloom.service.requests import RequestBody, read_json
from seqloom.service.served_runs import ServedRun
from seqloom.studio.dev_data import Cache, DevData, DevStates, elements, index_dev_states
from seqloom.studio.model_pages import InputRequest, dev_data, open_model, read_input
from seqloom.terminal import json_value

CONTEXT = 6  # elements shown on each side of a place
LETTERS = 28  # the same where elements are letters
MAX_REACH = 64  # outputs whose gradients are followed
REACH_STEPS = 4_000  # outputs × steps of the input: the time grows with them


class SimilarRequest(InputRequest):
    """A phrase of an input."""

    layer: str
    start: int = Field(ge=0, description="First element of the phrase.")
    stop: int = Field(ge=1, description="After the last element.")


class UnitRequest(RequestBody):
    """A unit of a layer."""

    run: str
    layer: str
    unit: int = Field(ge=0)


async def find_similar(request: Request) -> JSONResponse:
    """The places in the dev data at which a layer is in a state like that of a phrase."""
    body, model, example = await read_input(request, SimilarRequest)

    def compute() -> dict[str, Any]:
        data, states = _states(request, model)
        layer = states.index.layers.get(body.layer)
        if layer is None:
            raise HTTPException(404, f"there are no states of {body.layer} for the dev data")
        loaded = model.model
        batch = loaded.config.task.collate([example])
        outputs = layer_outputs(loaded.module, lambda: loaded.config.task.predict(loaded.module, batch))
        values = outputs[body.layer][0].float().cpu().numpy()
        if not body.start < body.stop <= len(values):
            raise HTTPException(422, f"the phrase has to lie within the {len(values)} elements of the input")
        matches = layer.find_similar(values[body.start : body.stop])
        return {
            "matches": [_place(loaded, data, states, layer, match) for match in matches],
            "examples": states.index.examples,
            "elements": states.index.elements,
        }

    return JSONResponse(json_value(await model.worker.call(compute)))


async def show_unit(request: Request) -> JSONResponse:
    """Where in the dev data a unit has its highest and its lowest values."""
    body = await read_json(request, UnitRequest)
    model = await open_model(request, body.run)

    def compute() -> dict[str, Any]:
        data, states = _states(request, model)
        layer = states.index.layers.get(body.layer)
        if layer is None or body.unit >= layer.values.shape[1]:
            raise HTTPException(404, f"there are no states of unit {body.unit + 1} of {body.layer} for the dev data")
        activity = layer.activity(body.unit)

        def places(matches: list[Match]) -> list[dict[str, Any]]:
            around = [_around(layer.of_example(match.example), match, body.unit) for match in matches]
            shown = [_place(model.model, data, states, layer, match) for match in matches]
            return [place | values for place, values in zip(shown, around, strict=True)]

        return {
            "highest": places(activity.highest),
            "lowest": places(activity.lowest),
            "mean": activity.mean,
            "deviation": activity.deviation,
            "examples": states.index.examples,
        }

    return JSONResponse(json_value(await model.worker.call(compute)))


async def show_reach(request: Request) -> JSONResponse:
    """How strongly each output depends on the state of each layer at each step: ‖∂ loss_t / ∂ h_s‖.

    The loss is that of the prediction, as if it were the target.
    """
    _, model, example = await read_input(request, InputRequest)

    def compute() -> dict[str, Any]:
        loaded = model.model
        task, module = loaded.config.task, loaded.module
        if task.is_self_trained:
            raise HTTPException(422, "this model is not trained by gradients")
        with torch.no_grad():
            (prediction,) = task.predict(module, task.collate([example])).answers
        batch = task.collate([task.with_predicted_target(example, prediction)])
        loss, parts = record(module, lambda: task.loss(module, batch).total)
        most = max(1, min(MAX_REACH, REACH_STEPS // max(elements(task, example), 1)))
        layers = [
            {"layer": each.layer, "direction": each.direction, "outputs": each.outputs, "norms": each.norms}
            for part in parts
            if len(part.mask) == 1
            for each in reach_of(part, loss, most=most)
        ]
        return {"layers": layers, "most": most}

    return JSONResponse(json_value(await model.worker.call(compute)))


def _states(request: Request, model: ServedRun) -> tuple[DevData, DevStates]:
    """The dev data of a run and the states for them, computed once."""
    data = dev_data(request, model)
    if not data.examples:
        raise HTTPException(409, data.note or "the run has no dev data")
    cache: Cache = request.app.state.dev_states
    return data, cache.get((model.name, model.current.version), lambda: index_dev_states(model.model, data))


def _around(values: Matrix, match: Match, unit: int) -> dict[str, Any]:  # (T, units)
    """The values of a unit at the elements that ``_place`` shows before and after a place."""
    column = values[:, unit].tolist()
    first = max(0, match.start - LETTERS)
    return {"values_before": column[first : match.start], "values_after": column[match.stop : match.stop + LETTERS]}


def _place(model: Model, data: DevData, states: DevStates, layer: LayerStates, match: Match) -> dict[str, Any]:
    """A place in the dev data with what stands around it."""
    row = states.rows[match.example]
    tokens = model.config.task.input_tokens(data.examples[row])
    around = LETTERS if all(len(token) <= 1 for token in tokens[1:]) else CONTEXT
    first = max(0, match.start - around)
    return {
        "example": row,
        "place": str(data.examples[row].location),
        "before": tokens[first : match.start],
        "phrase": tokens[match.start : match.stop],
        "after": tokens[match.stop : match.stop + around],
        "start": match.start,
        "stop": match.stop,
        "steps": len(layer.of_example(match.example)),
        "value": match.value,
        "cut": first > 0,
    }
