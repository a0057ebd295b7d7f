"""What a model generates: the continuation of a text, a drawing, or music."""

import base64
import math
from typing import Any

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from seqloom.data.readers.midi import midi_bytes
from seqloom.service.requests import RequestBody, read_json
from seqloom.studio.model_pages import open_model
from seqloom.terminal import json_value

ALTERNATIVES = 3  # of each token


class GenerateRequest(RequestBody):
    """What to continue, or to write."""

    run: str
    text: str = Field("", max_length=10_000)
    length: int = Field(120, ge=1, le=2_000, description="Tokens of a text, at most, or frames of music.")
    temperature: float = Field(0.8, ge=0, le=5, description="Below 1: more probable texts; 0: the most probable token.")
    seed: int = Field(1, ge=0)


async def generate(request: Request) -> JSONResponse:
    """Tokens that continue a text, each with its probability and the most probable ones; or strokes; or music."""
    body = await read_json(request, GenerateRequest)
    served = await open_model(request, body.run)

    def compute() -> dict[str, Any]:
        model = served.model
        if model.task.generates == "drawings":
            (drawing,) = model.draw(body.text, bias=max(0.0, 1 - body.temperature), seed=body.seed)
            return {"strokes": drawing.strokes.tolist()}
        if model.task.generates == "music":
            (roll,) = model.compose(length=body.length, temperature=body.temperature, seed=body.seed)
            midi = midi_bytes(roll.frames, frames_per_beat=roll.frames_per_beat, tempo=roll.tempo)
            return {
                "frames": roll.frames.tolist(),
                "frames_per_beat": roll.frames_per_beat,
                "seconds": roll.seconds,
                "midi": base64.b64encode(midi).decode(),
            }
        if model.task.generates != "text":
            raise HTTPException(422, f"the studio shows nothing that a {model.task.name} model generates")
        options = {"length": body.length, "lines": 1, "alternatives": ALTERNATIVES, "seed": body.seed}
        tokens = served.current.generate_tokens(body.text, **options, temperature=body.temperature)
        return {
            "tokens": [
                {
                    "text": token.text,
                    "probability": math.exp(token.log_probability),
                    "alternatives": [[name, math.exp(value)] for name, value in token.alternatives],
                }
                for token in tokens
            ]
        }

    return JSONResponse(json_value(await served.worker.call(compute)))
