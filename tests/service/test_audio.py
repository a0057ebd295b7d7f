import io
import json
import wave
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.contracts.tiny import RECURRENCE, _transcribe_sound, save_random
from tests.service.running import KEPT, Client, serving
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from seqloom.data.readers.audio_files import Audio
from seqloom.data.timed_text import cue_text, cues, to_srt
from seqloom.model import load
from seqloom.service.settings import ServiceSettings

RATE = 4000
SAMPLES = (12_000 * np.sin(np.cumsum(np.linspace(0.3, 0.9, 1200)))).astype("<i2")


def wav(rate: int = RATE) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(SAMPLES.tobytes())
    return stream.getvalue()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    encoder = {**RECURRENCE, "bidirectional": False}
    return save_random(_transcribe_sound(encoder=encoder, normalize="streaming"), tmp_path_factory.mktemp("sound"))


@pytest.fixture(scope="module")
def client(run: Path) -> Iterator[Client]:
    with serving([run, KEPT / "transcribe"], ServiceSettings(max_streams=2, idle_timeout=0.5)) as running:
        yield running


def test_a_file_is_transcribed_in_every_format(client: Client, run: Path) -> None:
    model = load(run)
    (expected,) = model.predict([Audio(SAMPLES, RATE)])
    assert expected.text

    def ask(response_format: str) -> Any:
        fields = {"model": "run", "response_format": response_format}
        return client.post_file("/v1/audio/transcriptions", "a.wav", wav(), **fields)

    assert ask("json").json() == {"text": expected.text}
    assert ask("text").body.decode() == expected.text + "\n"
    duration = len(SAMPLES) / RATE
    timed = model.task.timed_text(expected, name="a.wav", duration=duration)
    assert ask("srt").body.decode() == to_srt(timed)
    assert ask("vtt").body.decode().startswith("WEBVTT")
    verbose = ask("verbose_json").json()
    assert [word["word"] for word in verbose["words"]] == [word.text for word in timed.words]
    assert verbose["duration"] == duration
    assert [segment["text"] for segment in verbose["segments"]] == [cue_text(cue) for cue in cues(timed.words)]
    assert "expected one of json, text" in ask("mp3").message


def test_forms_that_are_wrong_are_named(client: Client) -> None:
    path = "/v1/audio/transcriptions"
    assert client.post_file(path, "a.txt", b"hello", model="run").status == 422
    assert "speed" in client.post_file(path, "a.wav", wav(), model="run", speed="2").message
    assert "prompt: not supported" in client.post_file(path, "a.wav", wav(), model="run", prompt="names").message
    form = {"Content-Type": "multipart/form-data; boundary=b"}
    assert "no file" in client.send("POST", path, b"--b--\r\n", form).message
    assert client.send("POST", path, b"x", {"Content-Type": "multipart/form-data"}).status in (400, 422)


@contextmanager
def connected(client: Client, query: str) -> Iterator[ClientConnection]:
    with connect(f"ws://127.0.0.1:{client.port}/v1/audio/stream?{query}", proxy=None) as socket:
        yield socket


def receive_all(socket: ClientConnection) -> list[dict[str, Any]]:
    messages = []
    with suppress(ConnectionClosed):
        while True:
            messages.append(json.loads(socket.recv(timeout=20)))
    return messages


@pytest.mark.parametrize("rate", [RATE, 8000])
def test_live_sound_gives_the_text_of_the_file(client: Client, run: Path, rate: int) -> None:
    with connected(client, f"model=run&rate={rate}&lag=0.1") as socket:
        data = SAMPLES.tobytes()
        for start in range(0, len(data), 301):  # also in the middle of a sample
            socket.send(data[start : start + 301])
        socket.send("end")
        messages = receive_all(socket)
    *growing, last = messages
    (expected,) = load(run).predict([Audio(SAMPLES, rate)])
    assert last["final"]
    session = load(run).open_stream(lag=0.1)
    if rate == RATE:
        session.feed(SAMPLES)
        assert last["text"] == session.finish().text
        assert last["text"] == expected.text or growing
    assert all(last["text"].startswith(message["text"]) for message in growing)
    assert [message["final"] for message in growing] == [False] * len(growing)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("model=none", "name the model: run, transcribe"),
        ("model=transcribe", "whole recording|frames of features"),
        ("model=run&rate=5", "rate: expected 4000 to 192000 Hz, got 5"),
        ("model=run&rate=x", "invalid literal"),
        ("model=run&lag=-1", "lag: expected 0 to 60 seconds"),
    ],
)
def test_live_sound_is_refused_with_the_reason(client: Client, query: str, reason: str) -> None:
    with connected(client, query) as socket:
        (message,) = receive_all(socket)
    assert any(part in message["error"] for part in reason.split("|"))


def test_silent_and_wrong_clients_are_closed_and_make_room(client: Client) -> None:
    with connected(client, "model=run") as first, connected(client, "model=run") as second:
        with connected(client, "model=run") as third:
            assert "too many live transcriptions" in receive_all(third)[0]["error"]
        second.send("hello")
        assert receive_all(second) == []
        assert second.close_code == 1007
        assert receive_all(first) == []  # sent nothing for too long
    with connected(client, "model=run") as again:
        again.send("end")
        assert receive_all(again)[-1]["final"]
