import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.service.running import KEPT, Client, serving

from seqloom.answers import EMPTY_INPUT, with_warning
from seqloom.model import load

TASKS = ("classify", "tag", "forecast", "language_model", "translate", "transcribe", "embed", "caption")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving([KEPT / name for name in TASKS]) as running:
        yield running


def questions(name: str) -> list[Any]:
    inputs: list[Any] = json.loads((KEPT / name / "answers.json").read_text())["inputs"]
    return inputs


@pytest.mark.parametrize("name", [name for name in TASKS if name != "caption"])
def test_predictions_are_those_of_the_model(client: Client, name: str) -> None:
    model, inputs = load(KEPT / name), questions(name)
    answer = client.post("/v1/predict", {"model": name, "inputs": inputs})
    assert answer.status == 200, answer.body
    received = answer.json()
    task, examples = model.task, list(model.read(inputs))
    (answers,) = model.predict_batches(examples, batch_size=len(examples))
    problems = [EMPTY_INPUT if task.is_empty_input(example) else task.input_warning(example) for example in examples]
    expected = [
        with_warning(task.to_json(prediction), problem) for prediction, problem in zip(answers, problems, strict=True)
    ]
    assert received["predictions"] == json.loads(json.dumps(expected))
    assert received["version"] == client.store.models[name].current.version


def test_all_models_are_listed_with_what_they_read(client: Client) -> None:
    models = {model["id"]: model for model in client.get("/v1/models").json()["data"]}
    assert list(models) == list(TASKS)
    assert models["tag"]["reads"] == "texts"
    assert models["transcribe"]["reads"] == models["caption"]["reads"] == "files or lists of numbers"
    assert client.get("/v1/models/tag").json() == models["tag"]
    assert client.get("/v1/models/nothing").status == 404


def test_a_search_is_chosen_by_the_request(client: Client) -> None:
    body = {"model": "translate", "inputs": ["b a"], "search": "beam size=3 nbest=2"}
    (prediction,) = client.post("/v1/predict", body).json()["predictions"]
    assert len(prediction["nbest"]) == 2
    (greedy,) = client.post("/v1/predict", body | {"search": ""}).json()["predictions"]
    assert len(greedy["nbest"]) == 1
    assert "limited to 100" in client.post("/v1/predict", body | {"search": "beam size=101"}).message
    assert "unknown" in client.post("/v1/predict", body | {"search": "beams"}).message
    assert client.post("/v1/predict", {"model": "tag", "inputs": ["a"], "search": "greedy"}).status == 422


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"inputs": ["a"]}, 404, "name the model: classify, tag"),
        ({"model": "none", "inputs": ["a"]}, 404, "no model 'none'; there are: classify"),
        ({"model": "tag"}, 422, "missing argument inputs"),
        ({"model": "tag", "inputs": []}, 422, "inputs"),
        ({"model": "tag", "input": ["a"], "inputs": ["a"]}, 422, "unknown argument input"),
        ({"model": "tag", "inputs": [[1.0, 2.0]]}, 422, "inputs[0]: expected a text"),
        ({"model": "tag", "inputs": ["a", {"words": ["a"]}]}, 422, "inputs[1]: expected texts"),
        ({"model": "tag", "inputs": ["a" * 100_001]}, 422, "inputs[0]: limited to 100,000 characters"),
        ({"model": "tag", "inputs": ["a"] * 65}, 413, "limited to 64 inputs"),
        ({"model": "forecast", "inputs": [[[1, 2], [3]]]}, 422, "inputs[0]: expected rows of equally many numbers"),
        ({"model": "forecast", "inputs": ["data.csv"]}, 422, "inputs[0]: the model forecast reads files or lists"),
        ({"model": "transcribe", "inputs": ["/etc/passwd"]}, 422, "inputs[0]: the model transcribe reads files"),
        ({"model": "caption", "inputs": ["/etc/passwd"]}, 422, "inputs[0]: the model caption reads files"),
        ({"model": "transcribe", "inputs": [{"file": ["/etc/passwd"]}]}, 422, "inputs[0]: expected files"),
        ([1, 2], 400, "expected a JSON object, found list"),
        (b"{", 400, "not valid JSON"),
        (b'{"inputs": NaN}', 400, "not valid JSON"),
        (b"[" * 10_000, 400, "recursion limit"),
    ],
)
def test_wrong_requests_are_answered_with_what_is_wrong(client: Client, body: Any, status: int, message: str) -> None:
    answer = client.post("/v1/predict", body)
    assert (answer.status, message in answer.message) == (status, True), answer.body


def test_an_explanation_is_that_of_the_model(client: Client) -> None:
    (text,) = questions("classify")[:1]
    answer = client.post("/v1/explain", {"model": "classify", "input": text})
    expected = json.loads(load(KEPT / "classify").explain(text).to_json())
    assert answer.json()["explanation"] == expected
    wrong = client.post("/v1/explain", {"model": "classify", "input": text, "target": "none"})
    assert "known labels: down, up" in wrong.message


def test_only_files_of_media_are_read(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "frames.npy"
    np.save(path, np.array(questions("transcribe")[0], dtype=np.float32))
    answer = client.post_file("/v1/predict", "frames.npy", path.read_bytes(), model="transcribe")
    expected = client.post("/v1/predict", {"model": "transcribe", "inputs": questions("transcribe")[:1]})
    (received,), (same,) = answer.json()["predictions"], expected.json()["predictions"]
    assert received == same | {"name": "frames.npy"}
    listed = b"file\ttext\n/etc/passwd\thello\n"
    assert "expected a file of sound" in client.post_file("/v1/predict", "list.tsv", listed, model="transcribe").message
    damaged = client.post_file("/v1/predict", "a.wav", b"RIFF....WAVE", model="transcribe")
    assert damaged.status == 422
    assert "a.wav" in damaged.message
    assert "/tmp" not in damaged.message  # noqa: S108  the name of a temporary file is not shown
    assert "reads texts" in client.post_file("/v1/predict", "a.wav", b"", model="tag").message


def test_the_description_names_every_route(client: Client) -> None:
    described = client.get("/openapi.json").json()
    assert {"/v1/predict", "/v1/completions", "/v2/models/{model}/infer", "/metrics"} <= set(described["paths"])
    schema = described["components"]["schemas"]["PredictRequest"]
    assert schema["required"] == ["inputs"]
    for path in described["paths"]:
        method = "GET" if "get" in described["paths"][path] else "POST"
        assert client.send(method, path.replace("{model}", "tag"), b"", {}).status != 405, path


def test_figures_are_counted(client: Client) -> None:
    def count() -> int:
        lines = client.get("/metrics").body.decode().splitlines()
        name = 'seqloom_requests_total{method="POST",route="/v1/predict",status="404"} '
        return next((int(line.removeprefix(name)) for line in lines if line.startswith(name)), 0)

    before = count()
    client.post("/v1/predict", {"model": "none", "inputs": ["a"]})
    assert count() == before + 1
