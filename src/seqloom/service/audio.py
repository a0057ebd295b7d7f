"""Speech: ``/v1/audio/transcriptions`` for files, as in the OpenAI API, and live sound by a WebSocket."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from seqloom.data.readers.audio_files import to_samples
from seqloom.data.timed_text import FORMATS, cue_text, cues
from seqloom.service.requests import find_model, read_form, read_uploads
from seqloom.service.served_models import ModelStore, ServedModel
from seqloom.service.worker import Overloaded
from seqloom.terminal import json_value

ResponseFormat = Literal["json", "text", "srt", "verbose_json", "vtt"]
FORMAT_NAMES: tuple[str, ...] = get_args(ResponseFormat)
FIELDS = frozenset(
    {"model", "response_format", "language", "temperature", "prompt", "timestamp_granularities", "stream"}
)
RATES = (4000, 192_000)  # Hz, lowest and highest
MAX_LAG = 60  # seconds


class TranscriptionForm(BaseModel):
    """A recording to transcribe, as a form."""

    file: bytes
    model: str = ""
    response_format: ResponseFormat = "json"


async def transcriptions(request: Request) -> Response:
    uploads, fields = await read_form(request, fields=FIELDS)
    kind = fields.get("response_format", "json")
    if kind not in FORMAT_NAMES:
        raise HTTPException(422, f"response_format: expected one of {', '.join(FORMAT_NAMES)}, got {kind!r}")
    if len(uploads) != 1:
        raise HTTPException(422, f"expected one file, found {len(uploads)}; /v1/predict takes several")
    if unused := {name for name in ("prompt", "temperature") if fields.get(name) not in (None, "", "0", "0.0")}:
        raise HTTPException(422, f"{', '.join(sorted(unused))}: not supported by these models")
    if fields.get("stream", "false").lower() != "false":
        raise HTTPException(422, "stream: not supported for files; /v1/audio/stream transcribes live sound")
    model = find_model(request, fields.get("model", ""))
    loaded = model.current
    if kind not in ("json", "text"):
        loaded.require_timings()
    (upload,) = uploads
    (example,) = await read_uploads(model, uploads)
    (answer,) = await model.worker.predict(loaded.predict, [example])
    if kind == "json":
        return JSONResponse({"text": answer["text"]})
    if kind == "text":
        return PlainTextResponse(answer["text"] + "\n")
    timed = loaded.timed_text(answer, example, name=upload.name)
    if kind == "verbose_json":
        words = [{"word": word.text, "start": word.start, "end": word.end} for word in timed.words]
        segments = [
            {"id": number, "start": cue[0].start, "end": cue[-1].end, "text": cue_text(cue)}
            for number, cue in enumerate(cues(timed.words))
        ]
        verbose = {"task": "transcribe", "duration": timed.duration, "text": answer["text"]}
        return JSONResponse(json_value({**verbose, "words": words, "segments": segments}))
    return PlainTextResponse(FORMATS[kind](timed))


async def live(socket: WebSocket) -> None:
    """Transcribe sound while it is recorded.

    The client sends 16-bit little-endian samples of one channel as binary messages, at the rate of the query, and the
    text message "end" after the last one. It gets {"text": …} whenever text has become final, and at the end the whole
    prediction with "final": true.
    """
    state = socket.app.state
    store: ModelStore = state.store
    model = store.find(socket.query_params.get("model", ""))
    if model is None:
        await _refuse(socket, f"name the model: {', '.join(store.models)}")
        return
    if state.streams >= state.settings.max_streams:
        await _refuse(socket, "too many live transcriptions; try again later")
        return
    try:
        model.worker.admit(1)
        session, rate = _open_session(model, socket.query_params)
    except (ValueError, TypeError) as error:
        await _refuse(socket, str(error))
        return
    except Overloaded:
        await _refuse(socket, "too many inputs wait; try again later")
        return
    await socket.accept()
    state.streams += 1
    try:
        await _transcribe_live(socket, model, session, rate)
    except (WebSocketDisconnect, TimeoutError):
        pass
    except ValueError as error:
        await socket.close(1007, str(error)[:120])
    finally:
        state.streams -= 1


def _open_session(model: ServedModel[Any], query: Mapping[str, str]) -> tuple[Any, int]:
    """A live transcription as the query asks for it, and the sample rate of the client."""
    rate, lag = int(query.get("rate", "0")), float(query.get("lag", "2"))
    if rate and not RATES[0] <= rate <= RATES[1]:
        raise ValueError(f"rate: expected {RATES[0]} to {RATES[1]} Hz, got {rate}")
    if not 0 <= lag <= MAX_LAG:
        raise ValueError(f"lag: expected 0 to {MAX_LAG} seconds, got {lag:g}")
    session = model.current.open_stream(lag)
    if not session.rate:
        raise ValueError(f"the model {model.name} reads frames of features, not sound")
    return session, rate or session.rate


async def _transcribe_live(socket: WebSocket, model: ServedModel[Any], session: Any, rate: int) -> None:
    from seqloom.data.readers.audio_streams import StreamingResampler  # imports torch, as live transcription does

    loaded = model.current
    resampler = None if rate == session.rate else StreamingResampler(rate, session.rate)
    sent, rest = "", b""
    limit = socket.app.state.settings.idle_timeout
    while True:
        message = await asyncio.wait_for(socket.receive(), limit)
        if message["type"] == "websocket.disconnect":
            return
        if message.get("text") is not None:
            if message["text"] != "end":
                raise ValueError('expected binary samples, or the text message "end"')
            break
        data = rest + (message.get("bytes") or b"")
        rest = data[len(data) // 2 * 2 :]
        samples = to_samples(np.frombuffer(data[: len(data) // 2 * 2], "<i2"))
        if resampler is not None:
            samples = resampler.feed(samples)
        if not len(samples):
            continue
        text = (await model.worker.call(session.feed, samples, admitted=True)).text.rstrip("\ufffd")
        if text != sent:
            await socket.send_text(json.dumps({"text": text, "final": False}, ensure_ascii=False))
            sent = text
    if resampler is not None and len(samples := resampler.finish()):
        await model.worker.call(session.feed, samples, admitted=True)
    answer = await model.worker.call(session.finish, admitted=True)
    values = loaded.to_json(answer)
    await socket.send_text(json.dumps({**values, "final": True}, ensure_ascii=False))
    await socket.close()


async def _refuse(socket: WebSocket, reason: str) -> None:
    await socket.accept()
    await socket.send_text(json.dumps({"error": reason}, ensure_ascii=False))
    await socket.close(1008, reason[:120])
