"""Similar states, units and gradients over HTTP, against the model itself."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.service.running import Client, running

from seqloom.model import load
from seqloom.service.settings import ServiceSettings
from seqloom.studio.app import build_app

LAYER = "encoder.layer.forward_layer"


@pytest.fixture(scope="module")
def client(trained: Path) -> Iterator[Client]:
    settings = ServiceSettings(port=0)
    with running(build_app(trained, settings), settings) as port:
        yield Client(port)


def test_dev_examples_are_inputs(client: Client, trained: Path) -> None:
    model = load(trained / "first")
    dev = list(model.config.task.read(Path(model.config.task.dev)))
    described = client.get("/api/model?run=first").json()
    assert described["dev_examples"] == len(dev)
    assert described["examples"][0]["input"] == "\t".join(dev[0].words)
    assert described["examples"][0]["target"] == "\t".join(dev[0].labels)
    answer = client.post("/api/predict", {"run": "first", "example": 1}).json()["prediction"]
    ((expected,),) = model.predict_batches([dev[1]])
    assert answer["labels"] == expected.labels
    missing = client.post("/api/predict", {"run": "first", "example": len(dev)})
    assert missing.status == 404
    assert "no dev example" in missing.message


def test_a_phrase_of_the_dev_data_finds_itself(client: Client) -> None:
    answer = client.post("/api/similar", {"run": "first", "example": 1, "layer": LAYER, "start": 0, "stop": 2})
    assert answer.status == 200, answer.body
    content = answer.json()
    best = content["matches"][0]
    assert best["value"] == pytest.approx(1, abs=1e-5)
    assert len(best["phrase"]) == 2
    assert [match["value"] for match in content["matches"]] == sorted(
        (match["value"] for match in content["matches"]), reverse=True
    )
    typed = {"run": "first", "input": " ".join(best["before"] + best["phrase"] + best["after"])}
    same = client.post("/api/similar", typed | {"layer": LAYER, "start": best["start"], "stop": best["stop"]}).json()
    assert same["matches"][0]["value"] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("changes", "status"),
    [({"layer": "nowhere"}, 404), ({"start": 3, "stop": 2}, 422), ({"stop": 4000}, 422), ({"start": -1}, 422)],
)
def test_wrong_phrases_are_refused(client: Client, changes: dict[str, object], status: int) -> None:
    body = {"run": "first", "example": 0, "layer": LAYER, "start": 0, "stop": 1} | changes
    assert client.post("/api/similar", body).status == status


def test_a_unit_has_its_extremes(client: Client, trained: Path) -> None:
    content = client.post("/api/unit", {"run": "first", "layer": LAYER, "unit": 2}).json()
    model = load(trained / "first")
    values = []
    for example in model.config.task.read(Path(model.config.task.dev)):
        with torch.no_grad():
            traces = model.task.trace_gates(model.module, example)
        (hidden,) = [next(iter(trace.states.values())) for trace, _ in traces if trace.name == LAYER]
        values.append(hidden[0, :, 2].numpy())
    everything = np.concatenate(values)
    # The kernel and the plain loop add in different orders.
    assert content["highest"][0]["value"] == pytest.approx(everything.max(), abs=1e-5)
    assert content["lowest"][0]["value"] == pytest.approx(everything.min(), abs=1e-5)
    best = content["highest"][0]
    assert best["steps"] == len(values[best["example"]])
    around = [*best["values_before"], best["value"], *best["values_after"]]
    np.testing.assert_allclose(around, values[best["example"]][: len(around)], atol=1e-5)  # all of a short example
    assert content["mean"] == pytest.approx(everything.mean(), abs=1e-5)
    assert client.post("/api/unit", {"run": "first", "layer": LAYER, "unit": 999}).status == 404


def test_gradients_reach_only_what_was_read_before(client: Client) -> None:
    before = client.post("/api/predict", {"run": "first", "example": 1}).json()
    layers = client.post("/api/reach", {"run": "first", "example": 1}).json()["layers"]
    assert client.post("/api/predict", {"run": "first", "example": 1}).json() == before  # looking changes nothing
    for layer in layers:
        norms = np.array(layer["norms"])
        assert norms.shape == (len(layer["outputs"]), norms.shape[1])
        assert np.diag(norms).min() > 0
        later = np.triu(norms, 1) if layer["direction"] == "forward" else np.tril(norms, -1)
        assert not later.any()
    assert {layer["direction"] for layer in layers} == {"forward", "backward"}


def test_two_runs_are_compared_example_by_example(client: Client, trained: Path) -> None:
    result = client.post("/api/disagreements", {"runs": ["first", "second"]}).json()
    models = [load(trained / name) for name in ("first", "second")]
    dev = Path(models[0].config.task.dev)
    scores = [model.evaluate(dev)[result["metric"]] for model in models]
    assert result["scores"] == pytest.approx(scores)
    answers = [[each.labels for each in model.predict(dev)] for model in models]
    assert result["disagreements"] == sum(first != second for first, second in zip(*answers, strict=True))
    assert len(result["shown"]) == result["disagreements"]
    assert all(each["answers"][0] != each["answers"][1] for each in result["shown"])
    refused = client.post("/api/disagreements", {"runs": ["first", "other"]})
    assert (refused.status, "different dev data" in refused.message) == (409, True)
    assert client.post("/api/disagreements", {"runs": ["first"]}).status == 422
