"""Exported files, served as their runs are."""

import asyncio
import io
import json
import re
import subprocess
import sys
import urllib.request
import wave
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts import tiny
from tests.contracts.registry import randomize
from tests.service.running import KEPT, Client, running
from tests.test_seqloom_runtime import assert_same

import seqloom_runtime
from seqloom.model import load
from seqloom.onnx.exported import write, write_runtime
from seqloom.service.app import build_app
from seqloom.service.served_files import ServedFile
from seqloom.service.served_models import InputError, ModelStore
from seqloom.service.served_runs import ServedRun
from seqloom.service.settings import ServiceSettings

TEXTS = {"classify": ["it goes up", "low"], "tag": ["the Anna", "New York"], "translate": ["a b", "cd"]}
TEXTS["language_model"] = ["a b cd", "eff"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of the kept runs, and of a forecaster and a transcriber of sound with random weights."""
    folder = tmp_path_factory.mktemp("files")
    for name, texts in TEXTS.items():
        load(KEPT / name).export(folder / f"{name}.onnx", check=texts, runtime=True)
    for name, file in (("forecast", "forecast"), ("transcribe, audio", "transcribe")):
        case = tiny.CASES[name]
        task: Any = tiny.build(case, folder).task
        examples = list(task.read(folder / case.file))
        task = task.fit(examples)
        module = task.build_model().eval()
        randomize(module, dtype=torch.float32)
        with torch.no_grad():
            write(task.onnx_model(module), folder / f"{file}.onnx", [examples[:3]], metadata={})
    return folder


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    settings = replace(ServiceSettings(), port=0)
    store = ModelStore(
        [ServedFile(path.stem, path, settings) for path in sorted(folder.glob("*.onnx")) if "." not in path.stem]
    )
    with running(build_app(store, settings), settings) as port:
        yield Client(port, store)


def recording(rate: int = 4000) -> bytes:
    samples = np.random.default_rng(1).normal(0, 3000, 2000).astype("<i2")
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    return stream.getvalue()


@pytest.mark.parametrize("name", TEXTS)
def test_predictions_are_those_of_the_run(client: Client, name: str) -> None:
    answer = client.post("/v1/predict", {"model": name, "inputs": TEXTS[name]}).json()
    served = ServedRun(name, KEPT / name, load, ServiceSettings())
    expected = served.current.predict(served.read(TEXTS[name]))
    known = [
        {key: prediction[key] for key in found}
        for prediction, found in zip(expected, answer["predictions"], strict=True)
    ]
    assert_same(answer["predictions"], known)
    model = client.get("/v1/models").json()["data"]
    assert {"id": name, "task": name, "reads": "texts"}.items() <= next(
        each for each in model if each["id"] == name
    ).items()


def test_a_request_may_choose_a_search(client: Client) -> None:
    inputs = {"model": "translate", "inputs": ["a b"]}
    answer = client.post("/v1/predict", {**inputs, "search": "beam size=4 nbest=3"}).json()
    served = ServedRun("t", KEPT / "translate", load, ServiceSettings())
    (expected,) = served.with_search("beam size=4 nbest=3").predict(served.read(["a b"]))
    assert [each["text"] for each in answer["predictions"][0]["nbest"]] == [each["text"] for each in expected["nbest"]]
    for search, message in (
        ("beams", "unknown search"),
        ("beam width=3", "no setting 'width'"),
        ("beam size=1000", "limited to 100"),
    ):
        refused = client.post("/v1/predict", {**inputs, "search": search})
        assert refused.status == 422
        assert message in refused.message
    refused = client.post("/v1/predict", {"model": "classify", "inputs": ["low"], "search": "beam"})
    assert (refused.status, refused.message) == (422, "a model of the task classify has no search")


def test_text_is_generated_as_by_the_run(client: Client) -> None:
    body = {"model": "language_model", "prompt": "a b", "max_tokens": 20, "lines": 0, "seed": 3, "logprobs": 2}
    answer = client.post("/v1/completions", body).json()
    served = ServedRun("m", KEPT / "language_model", load, ServiceSettings()).current
    options = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    tokens = list(served.generate_tokens("a b", length=20, lines=0, alternatives=2, seed=3, **options))
    (choice,) = answer["choices"]
    assert choice["text"] == "".join(token.text for token in tokens)
    assert choice["logprobs"]["tokens"] == [token.token for token in tokens]
    assert_same(choice["logprobs"]["token_logprobs"], [token.log_probability for token in tokens])
    assert [*choice["logprobs"]["top_logprobs"][0]] == [name for name, _ in tokens[0].alternatives]
    assert answer["usage"] == {"prompt_tokens": 2, "completion_tokens": 20, "total_tokens": 22}
    del body["lines"]
    first = client.post("/v1/completions", body).json()["choices"][0]
    assert (first["text"], first["finish_reason"]) == (choice["text"].partition("\n")[0] + "\n", "stop")
    refused = client.post("/v1/completions", {"model": "tag", "prompt": "a"})
    assert (refused.status, refused.message) == (
        422,
        "a model of the task tag does not generate text; language_model does",
    )


def test_sound_and_series(client: Client) -> None:
    verbose = client.post_file(
        "/v1/audio/transcriptions", "a.wav", recording(), model="transcribe", response_format="verbose_json"
    )
    assert verbose.status == 200
    assert verbose.json()["duration"] == 0.5
    predicted = client.post_file("/v1/predict", "a.wav", recording(), model="transcribe").json()["predictions"][0]
    assert predicted["text"] == verbose.json()["text"]
    rows = [[float(step), float(step * step)] for step in range(8)]
    table = {"one": [row[0] for row in rows], "two": [row[1] for row in rows]}
    by_rows, by_columns = (
        client.post("/v1/predict", {"model": "forecast", "inputs": [given]}).json() for given in (rows, table)
    )
    assert by_rows["predictions"] == by_columns["predictions"]
    refused = client.post("/v1/predict", {"model": "forecast", "inputs": [{"one": [1.0]}]})
    assert "no column 'two'" in refused.message


def test_what_an_exported_file_cannot_do(client: Client) -> None:
    refused = client.post("/v1/explain", {"model": "tag", "input": "the Anna"})
    assert (refused.status, refused.message) == (422, "an exported file explains nothing: serve the run itself")
    refused = client.post("/v1/predict", {"model": "transcribe", "inputs": ["/etc/passwd"]})
    assert "found a text" in refused.message
    refused = client.post_file("/v1/predict", "a.wav", b"RIFF", model="transcribe")
    assert refused.status == 422
    assert "/" not in refused.message


def test_a_new_file_is_loaded(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes((folder / "classify.onnx").read_bytes())
    served = ServedFile("m", path, ServiceSettings())
    assert not asyncio.run(served.reload_if_changed())
    path.write_bytes((folder / "tag.onnx").read_bytes())
    assert asyncio.run(served.reload_if_changed())
    assert served.current.task_name == "tag"
    path.write_bytes(b"damaged")
    assert not asyncio.run(served.reload_if_changed())
    with pytest.raises(InputError, match="expected a text"):
        served.read([[1.0]])


def test_the_command_serves_files_without_torch(folder: Path) -> None:
    blocked = "".join(
        f"sys.modules[{name!r}] = None; " for name in ("torch", "tokenizers", "numba", "llvmlite", "onnx")
    )
    command = [sys.executable, "-c", f"import sys; {blocked}from seqloom.cli.main import main; main()", "serve"]
    server = subprocess.Popen([*command, str(folder / "tag.onnx"), "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        lines = iter(server.stderr.readline, "")
        address = next(match[0] for line in lines if (match := re.search(r"http://[0-9.:]+", line)))
        request = urllib.request.Request(  # noqa: S310  our own server
            f"{address}/v1/predict", json.dumps({"inputs": ["the Anna"]}).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as response:  # noqa: S310
            answer = json.load(response)
        assert answer["model"] == "tag"
        assert answer["predictions"][0]["words"] == ["the", "Anna"]
    finally:
        server.terminate()
        server.communicate(timeout=60)
    result = subprocess.run(
        [*command, str(folder / "tag.onnx"), "--lm", "x.arpa"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert "an exported file has no --lm; serve the run itself" in result.stderr


def test_another_runtime_in_the_current_folder_is_not_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import of the module by its name finds a file that an earlier export has written there."""
    monkeypatch.setattr(seqloom_runtime, "__file__", str(tmp_path / "seqloom_runtime.py"))
    with pytest.raises(ValueError, match="is not the seqloom_runtime of this Seqloom: start it from another folder"):
        ServedFile("tag", folder / "tag.onnx", ServiceSettings())
    content = write_runtime(tmp_path).read_bytes()
    assert b"class KnownInAdvance" in content
