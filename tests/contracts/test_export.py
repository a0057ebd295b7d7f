"""Law 8, exported equals: a graph in onnxruntime gives the answers of the layer or model that it was written from."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts import registry, tiny
from torch import Tensor

from seqloom.cells.sru import SRU
from seqloom.export_check import TOLERANCE, relative_difference
from seqloom.layers.layer import Layer
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.transformer.block import transformer
from seqloom.layers.transformer.positions import KINDS
from seqloom.models.signals.line_images import LineImageConfig
from seqloom.onnx import exported
from seqloom.onnx.graph import Graph
from seqloom.onnx.modules import Rows, emit_layer
from seqloom.onnx.states import flatten

pytestmark = pytest.mark.sampled(6)

SHAPES = [(batch, time) for batch in (1, 3, 8) for time in (1, 7, 50, 300)]


def emitted(layer: Layer, *, states: bool) -> Any:
    """A session that runs a layer."""
    graph = Graph()
    x = graph.input("x", np.float32, ["batch", "time", layer.input_size])
    y, state = emit_layer(graph, layer, x, Rows.of(x, graph.input("lengths", np.int64, ["batch"])))
    graph.output("y", y, ["batch", "time", layer.output_size])
    for index, field in enumerate(flatten(state) if states else ()):
        graph.output(f"state_{index}", field, ["batch", f"size_{index}"])
    return exported.open_session(graph.finish("layer", {}).SerializeToString())


def ragged(batch: int, time: int, size: int) -> tuple[Tensor, Tensor]:
    """A batch whose first row is full and whose second one is empty, with NaN in the padding, and its mask."""
    draw = np.random.default_rng(1000 * batch + time)
    lengths = draw.integers(0, time + 1, batch)
    lengths[:2] = [time, 0][:batch]
    mask = torch.arange(time) < torch.from_numpy(lengths).unsqueeze(1)
    x = torch.from_numpy(draw.standard_normal((batch, time, size), dtype=np.float32))
    return x.masked_fill(~mask.unsqueeze(2), torch.nan), mask


def leaves(state: Any) -> Iterator[Tensor]:
    if isinstance(state, Tensor):
        yield state
    else:
        for part in state:
            yield from leaves(part)


def assert_equal(layer: Layer, *, states: bool = True) -> None:
    """The outputs and, for recurrent layers, the last states agree.

    Random weights can make a recurrence unstable, so that rounding grows over 300 steps: where float32 differs from
    float64 by more than the tolerance itself, the graph may differ by a few times as much.
    """
    session = emitted(layer, states=states)

    def results(module: Layer, x: Tensor, mask: Tensor) -> list[Any]:
        with torch.no_grad():
            y, state = module(x, mask)
        return [y.numpy(), *(field.flatten(1).numpy() for field in leaves(state))] if states else [y.numpy()]

    for shape in SHAPES:
        x, mask = ragged(*shape, layer.input_size)
        outputs = session.run(None, {"x": x.numpy(), "lengths": mask.sum(dim=1).numpy()})
        expected = results(layer, x, mask)
        difference = max(map(relative_difference, outputs, expected))
        if difference > TOLERANCE:
            exact = results(copy.deepcopy(layer).double(), x.double(), mask)
            rounding = max(map(relative_difference, expected, exact))
            assert difference <= 4 * rounding <= 1e-3, shape


@pytest.mark.parametrize("cell", registry.cells())
def test_every_cell_in_both_directions(cell: str) -> None:
    assert_equal(registry.build(cell, "bidirectional", dtype=torch.float32))


def test_an_input_that_the_step_reads_as_well() -> None:
    assert_equal(Recurrent(SRU(registry.HIDDEN, registry.HIDDEN), reverse=True))


@pytest.mark.parametrize("arrangement", registry.layers())
@pytest.mark.parametrize("cell", ["GRU(reset=after)", "MinLSTM()"])  # an operator of ONNX, and a traced step
def test_every_arrangement(cell: str, arrangement: str) -> None:
    assert_equal(registry.build(cell, arrangement, dtype=torch.float32))


@pytest.mark.parametrize("name", registry.convolutions())
def test_convolutions(name: str) -> None:
    assert_equal(registry.convolutions(dtype=torch.float32)[name], states=False)


@pytest.mark.parametrize("bands", [4, 5])
@pytest.mark.parametrize(("causal", "normalize"), [(True, False), (False, False), (False, True)])
def test_spectral_convolutions(causal: bool, normalize: bool, bands: int) -> None:
    assert_equal(registry.spectral_convolution(bands, causal=causal, normalize=normalize), states=False)


@pytest.mark.parametrize(("height", "layers"), [(4, 2), (3, 1)])
def test_two_dimensional_lstm(height: int, layers: int) -> None:
    layer = LineImageConfig(layers=layers, channels=2, model="lstm").build(height)
    registry.randomize(layer, dtype=torch.float32)
    assert_equal(layer.eval(), states=False)


def blocks(positions: Any, **options: Any) -> Layer:
    layer = transformer(4, 12, heads=2, layers=2, positions=positions, max_positions=300, **options).eval()
    registry.randomize(layer, dtype=torch.float32)
    return layer


# Causal layers refuse normalised counts.
@pytest.mark.parametrize("context", [0, 5])
@pytest.mark.parametrize(
    ("positions", "causal"),
    [(kind, causal) for kind in KINDS for causal in (True, False) if not causal or kind != "normalized_counts"],
)
def test_transformer_blocks(positions: str, causal: bool, context: int) -> None:
    assert_equal(blocks(positions, causal=causal, context=context), states=False)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("positions", ["rotary", "sinusoidal"])
def test_linear_attention(positions: str, causal: bool) -> None:
    layer = blocks(positions, causal=causal, attention="linear", norm="post", activation="gelu")
    assert_equal(layer, states=False)


def test_cell_of_a_user() -> None:
    assert_equal(registry.user_layer())


EXPORTED = [
    name
    for name, case in tiny.CASES.items()
    if case.name != "embed" and not any(kind in name for kind in ("hmm", "ngram", "hybrid"))
]


def is_both(name: str) -> bool:
    """Whether a case is a language model of both directions."""
    return tiny.CASES[name].fields.get("direction") == "both"


OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "hard attention": ("translate", {"attention": {"type": "hard"}}),
    "hard attention before the step": ("translate", {"attention": {"type": "hard", "style": "bahdanau"}}),
    "mixture": ("forecast", {"distribution": "gaussian_mixture"}),
    "2-D LSTM": ("transcribe, columns", {"image_encoder": {"layers": 1, "channels": 2, "model": "lstm"}}),
}
"""Models that only differ from a case by these fields."""


def find_case(name: str) -> tiny.Case:
    base, fields = OTHERS.get(name, (name, {}))
    return tiny.CASES[base]._replace(fields={**tiny.CASES[base].fields, **fields})


@pytest.mark.parametrize("name", [*EXPORTED, *OTHERS])
def test_every_task(name: str, tmp_path: Path) -> None:
    case = find_case(name)
    task, model = tiny.fit_random(case, tmp_path)
    with torch.no_grad():
        exported_model = task.onnx_model(model)
        data = exported_model.to_bytes("model", {})
        examples = list(task.read(tmp_path / f"dev-{case.file}"))
        count, difference = exported.check(exported_model, data, [examples[:1], examples[:3], examples])
    assert count == len(examples[:1]) + len(examples[:3]) + len(examples)
    assert difference <= TOLERANCE


@pytest.mark.parametrize(
    "fields",
    [
        {"distribution": "quantiles", "base_forecast": "linear"},
        {"distribution": "quantiles", "base_forecast": "linear", "channel_independent": True},
        {"distribution": "gaussian", "output": "every_step"},
        {"distribution": "student_t", "relative": False},
        {"distribution": "gaussian_mixture", "output": "every_step"},
        {"distribution": "gaussian_mixture", "relative": False},
        {"inputs": "values"},
        {"inputs": "changes"},
    ],
)
def test_every_kind_of_forecast(fields: dict[str, Any], tmp_path: Path) -> None:
    """Quantiles, also calibrated ones, and the bases that they are relative to."""
    case = tiny.CASES["forecast"]
    case = case._replace(fields={**case.fields, "calibrate": True, **fields})
    assert_forecasts_equal(case, tmp_path, quantiles="distribution" in fields)


@pytest.mark.parametrize("fields", [{}, {"output": "every_step", "relative": False}, {"calibrate": False}])
@pytest.mark.parametrize("largest", [3, 10_000])  # small counts are summed up; the quantiles of large ones are not
def test_forecasts_of_counts(fields: dict[str, Any], largest: int, tmp_path: Path) -> None:
    assert_forecasts_equal(counted(largest, **fields), tmp_path, quantiles=True)


def counted(largest: int, **fields: Any) -> tiny.Case:
    """Two series of counts below a number."""
    case = tiny.CASES["forecast"]
    draw = np.random.default_rng(4)
    train, dev = ("one,two\n" + "".join(f"{a},{b}\n" for a, b in draw.integers(0, largest, (30, 2))) for _ in range(2))
    fields = {**case.fields, "distribution": "negative_binomial", **fields}
    return case._replace(train=train, dev=dev, fields=fields)


ALL_KNOWN = {"calendar": True, "future_covariates": "promotion", "static_covariates": "size"}


def known_in_advance(**fields: Any) -> tiny.Case:
    """Daily sales with a promotion and the size of the shop."""
    case = tiny.CASES["forecast"]
    draw = np.random.default_rng(5)
    days = np.datetime64("2024-02-20") + np.arange(40)
    rows = [f"{day},{draw.integers(0, 2)},{draw.normal():.3f},7\n" for day in days]
    table = "date,promotion,sales,size\n" + "".join(rows)
    return case._replace(train=table, dev=table, fields={**case.fields, "target": "sales", "date": "date", **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"future_covariates": "promotion"},
        {"static_covariates": "size", "inputs": "changes"},
        {"calendar": True, "output": "every_step"},
        ALL_KNOWN,
        {**ALL_KNOWN, "channel_independent": True, "output": "every_step"},
        {**ALL_KNOWN, "channel_independent": True, "distribution": "quantiles", "base_forecast": "linear"},
    ],
)
def test_forecasts_with_covariates(fields: dict[str, Any], tmp_path: Path) -> None:
    assert_forecasts_equal(known_in_advance(**fields), tmp_path, quantiles="distribution" in fields)


def assert_forecasts_equal(case: tiny.Case, folder: Path, *, quantiles: bool) -> None:
    task, model = tiny.fit_random(case, folder)
    model.calibrate(0.7, [0.1 * index - 0.2 for index in range(len(model.levels))])
    examples = list(task.read(folder / f"dev-{case.file}"))
    with torch.no_grad():
        forecast = task.onnx_model(model)
        assert exported.check(forecast, forecast.to_bytes("model", {}), [examples])[1] <= TOLERANCE
    assert ("quantiles" in forecast.expected(examples)) == quantiles


@pytest.mark.parametrize(
    "name",
    [name for name in EXPORTED if name.startswith("language_model") and "masked" not in name and not is_both(name)],
)
def test_language_model_continues_from_its_state(name: str, tmp_path: Path) -> None:
    """Segments, ragged ones too, with the state passed on, equal the whole: law 1 holds in the file."""
    case = tiny.CASES[name]
    task, model = tiny.fit_random(case, tmp_path)
    exported_model = task.onnx_model(model)
    states = exported_model.description["output"]["states"]
    session = exported.open_session(exported_model.to_bytes("model", {}))
    draw = np.random.default_rng(7)
    lengths = np.array([9, 5, 0])
    tokens = draw.integers(1, len(task.tokenizer.vocabulary), (3, 9))
    mask = torch.arange(9) < torch.from_numpy(lengths).unsqueeze(1)
    with torch.no_grad():
        whole = model(torch.from_numpy(tokens), mask=mask)[0].log_softmax(dim=-1).numpy()
    state = {field["input"]: np.zeros((3, *(axis or 0 for axis in field["shape"])), field["dtype"]) for field in states}
    for start, stop in ((0, 4), (4, 5), (5, 9)):
        part = np.clip(lengths - start, 0, stop - start)
        feed = {"tokens": tokens[:, start:stop], "lengths": part, **state}
        log_probabilities, *following = session.run(["log_probabilities", *(field["output"] for field in states)], feed)
        state = {field["input"]: value for field, value in zip(states, following, strict=True)}
        for row, length in enumerate(part):
            difference = np.abs(log_probabilities[row, :length] - whole[row, start : start + length])
            assert difference.max(initial=0) <= TOLERANCE
