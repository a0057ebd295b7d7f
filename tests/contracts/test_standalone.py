"""Law 8, exported equals: a compiled function gives the answers of the layer or model that it was compiled from."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from tests.contracts import registry, tiny
from torch import Tensor, nn

from seqloom.cells.cell import Cell, projection, recurrence
from seqloom.cells.sru import SRU
from seqloom.export_check import TOLERANCE, ExportError, relative_difference
from seqloom.kernels.llvm.target import PORTABLE, Target, native
from seqloom.layers.build import recurrent
from seqloom.layers.layer import Layer
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.standalone import models as _models  # noqa: F401  registers how layers are compiled
from seqloom.standalone.builder import ModelBuilder, Rows
from seqloom.standalone.compiled import CompiledModel, compile_for
from seqloom.standalone.exported import choose_target
from seqloom.standalone.interface import Port, StandaloneModel, assemble
from seqloom.standalone.modules import emit_layer

pytestmark = pytest.mark.sampled(12)

EXHAUSTIVE = pytest.mark.exhaustive


def few(names: Iterable[str], *kept: str) -> list[Any]:
    """Cases, of which the sampled tests keep a few."""
    return [name if name in kept else pytest.param(name, marks=EXHAUSTIVE) for name in names]


LENGTHS = (0, 1, 7, 50, 300)
TARGETS = {**PORTABLE, "native": native()}
DEFAULT = choose_target("", Path("model.o"))  # narrow vectors are compiled sooner than those of this machine


def layer_model(layer: Layer) -> StandaloneModel:
    """A layer as a model: vectors to vectors."""
    sizes = layer.input_size, layer.output_size

    def emit(b: ModelBuilder, arguments: Mapping[str, Any]) -> None:
        y, _ = emit_layer(b, layer, Rows(arguments["x"], b.length, sizes[0], sizes[0]))
        b.copy(y, Rows(arguments["y"], b.length, sizes[1], sizes[1]))

    def unused(_examples: Any) -> Any:
        raise NotImplementedError

    x, y = (Port(name, "float", ("length", size), "") for name, size in zip("xy", sizes, strict=True))
    return StandaloneModel((x,), (y,), emit, unused, unused)


def compiled(model: StandaloneModel, target: Target) -> CompiledModel:
    assembly = assemble(model, "model", target)
    return CompiledModel.load(model, assembly, compile_for(assembly, target), target)


def assert_equal(layer: Layer, target: Target) -> None:
    """Rounding grows over the steps as in the layer itself: where float32 differs from float64 by more, so may this."""
    function = compiled(layer_model(layer), target)
    draw = np.random.default_rng(3)
    for length in LENGTHS:
        x = draw.standard_normal((length, layer.input_size), dtype=np.float32)
        with torch.no_grad():
            expected = layer(torch.from_numpy(x).unsqueeze(0))[0][0].numpy()
        assert relative_difference(function.predict({"x": x}, length)["y"], expected) <= 4 * TOLERANCE


# Vectors with and without fused products, of the narrowest and the widest kind.
@pytest.mark.parametrize("target", ["x86-64", "native"])
@pytest.mark.parametrize("cell", registry.cells())
def test_every_cell_in_both_directions(cell: str, target: str) -> None:
    assert_equal(registry.build(cell, "bidirectional", dtype=torch.float32), TARGETS[target])


def test_an_input_that_the_step_reads_as_well() -> None:
    assert_equal(Recurrent(SRU(registry.HIDDEN, registry.HIDDEN), reverse=True), DEFAULT)


@pytest.mark.parametrize("arrangement", few(registry.layers(), "reverse", "stack-bidirectional", "stack-highway"))
def test_every_arrangement(arrangement: str) -> None:
    assert_equal(registry.build("LSTM()", arrangement, dtype=torch.float32), DEFAULT)


@pytest.mark.parametrize(
    "target",
    [name if name in ("aarch64", "wasm32", "native") else pytest.param(name, marks=EXHAUSTIVE) for name in TARGETS],
)
def test_every_target(target: str) -> None:
    """What cannot run here is compiled for this processor from the same code."""
    assert_equal(registry.build("GRU(reset=after)", "stack-bidirectional", dtype=torch.float32), TARGETS[target])


@pytest.mark.parametrize("name", few(registry.convolutions(), "causal-2", "centred-5"))
def test_convolutions(name: str) -> None:
    assert_equal(registry.convolutions(dtype=torch.float32)[name], DEFAULT)


@pytest.mark.parametrize("bands", [5, pytest.param(4, marks=EXHAUSTIVE)])
@pytest.mark.parametrize(
    ("causal", "normalize"), [(True, False), (False, True), pytest.param(False, False, marks=EXHAUSTIVE)]
)
def test_spectral_convolutions(causal: bool, normalize: bool, bands: int) -> None:
    assert_equal(registry.spectral_convolution(bands, causal=causal, normalize=normalize), DEFAULT)


def test_cell_of_a_user() -> None:
    assert_equal(registry.user_layer(), DEFAULT)


class Gained(Cell):
    """A cell with a vector that is a matrix of one row."""

    class State(NamedTuple):
        hidden: Tensor

    gates: ClassVar[tuple[str, ...]] = ()

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.input = projection(input_size, hidden_size, blocks=1)
        self.recurrent = recurrence(hidden_size)
        self.gain = nn.Parameter(torch.zeros(1, hidden_size))

    def step(self, projected: Tensor, state: Any) -> tuple[Any, tuple[Tensor, ...]]:
        return self.State(torch.tanh(self.gain * projected + self.recurrent(state.hidden))), ()


def test_vector_as_a_matrix_of_one_row() -> None:
    layer = recurrent(Gained, 3, 5).eval()
    registry.randomize(layer, dtype=torch.float32)
    assert layer.path == "fused"
    assert_equal(layer, DEFAULT)


TASKS = [
    name
    for name, case in tiny.CASES.items()
    if case.name in ("classify", "tag", "forecast", "language_model", "transcribe") and "ngram" not in name
]
REFUSED = {
    "tag, hmm": "hmm",
    "tag, transformer": "Transformer",
    "tag, contextual vectors": "pretrained vectors",
    "tag, fine-tuned and static vectors": "pretrained vectors",
    "tag, masked vectors": "pretrained vectors",
    "classify, contextual vectors": "pretrained vectors",
    "classify, static vectors": "pretrained vectors",
    "classify, masked vectors": "pretrained vectors",
    "classify, mixed layers": "Transformer",
    "classify, pairs": "pairs of texts",
    "classify, pairs with attention": "pairs of texts",
    "classify, pairs with static vectors": "pairs of texts",
    "classify, images": "images",
    "classify, convolutions": "images",
    "classify, video": "videos",
    "transcribe, columns": "images",
    "transcribe, transformer": "Transformer",
    "transcribe, attention": "attention",
    "transcribe, joint": "joint",
    "transcribe, video": "videos",
    "language_model, transformer": "Transformer",
    "language_model, mixed layers": "Transformer",
    "language_model, bidirectional": "task.direction",
    "language_model, bidirectional, transformer": "task.direction",
    "language_model, character encoder": "task.direction",
    "language_model, masked": "masked language model",
    "language_model, masked, transformer": "masked language model",
    "language_model, masked, characters": "masked language model",
}
"""What cannot be compiled, and a word of the reason."""


@pytest.mark.parametrize("name", TASKS)
def test_every_task(name: str, tmp_path: Path) -> None:
    case = tiny.CASES[name]
    task, model = tiny.fit_random(case, tmp_path)
    with torch.no_grad():
        if name in REFUSED:
            with pytest.raises((ExportError, TypeError), match=REFUSED[name]) as refusal:
                compiled(task.standalone_model(model), DEFAULT)
            assert refusal.type is TypeError or "export the model to ONNX instead" in str(refusal.value)
            return
        compiled_model = compiled(task.standalone_model(model), DEFAULT)
        examples = list(task.read(tmp_path / f"dev-{case.file}"))
        count, difference = compiled_model.check([examples[:1], examples])
    assert count == len(examples) + 1
    assert difference <= TOLERANCE


@pytest.mark.parametrize("name", ["language_model, window", pytest.param("language_model", marks=EXHAUSTIVE)])
def test_language_model_continues_from_its_state(name: str, tmp_path: Path) -> None:
    """Segments, also an empty one, with the state passed on, equal the whole: law 1 holds in the file."""
    case = tiny.CASES[name]
    task, model = tiny.fit_random(case, tmp_path)
    function = compiled(task.standalone_model(model), DEFAULT)
    tokens = np.random.default_rng(7).integers(1, len(task.tokenizer.vocabulary), 9)
    with torch.no_grad():
        whole = model(torch.from_numpy(tokens).unsqueeze(0))[0][0].log_softmax(dim=-1).numpy()
    state: dict[str, Any] = {}
    for start, stop in ((0, 4), (4, 4), (4, 5), (5, 9)):
        outputs = function.predict({"tokens": tokens[start:stop], **state}, stop - start)
        state = {"state": outputs["next_state"]}
        assert relative_difference(outputs["log_probabilities"], whole[start:stop]) <= TOLERANCE


def check_task(name: str, fields: dict[str, Any], folder: Path, *, calibrate: bool = False) -> float:
    """The largest difference of a compiled model of a case with other fields."""
    case = tiny.CASES[name]
    case = case._replace(fields={**case.fields, **fields})
    task, model = tiny.fit_random(case, folder)
    if calibrate:
        model.calibrate(0.7, [0.1 * index - 0.2 for index in range(len(model.levels))])
    with torch.no_grad():
        examples = list(task.read(folder / f"dev-{case.file}"))
        return compiled(task.standalone_model(model), DEFAULT).check([examples])[1]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"distribution": "quantiles", "base_forecast": "linear"}, marks=EXHAUSTIVE),
        {"distribution": "quantiles", "base_forecast": "linear", "channel_independent": True},
        {"distribution": "gaussian", "output": "every_step"},
        pytest.param({"distribution": "student_t", "relative": False}, marks=EXHAUSTIVE),
        pytest.param({"inputs": "values"}, marks=EXHAUSTIVE),
        pytest.param({"inputs": "changes"}, marks=EXHAUSTIVE),
    ],
)
def test_every_kind_of_forecast(fields: dict[str, Any], tmp_path: Path) -> None:
    assert check_task("forecast", {"calibrate": True, **fields}, tmp_path, calibrate=True) <= TOLERANCE


@pytest.mark.parametrize(
    "fields",
    [
        {"normalize": "global", "time_reduction": {"method": "max", "factor": 3}},
        pytest.param(
            {"normalize": "utterance", "time_reduction": {"method": "stride", "factor": 2, "times": 2}},
            marks=EXHAUSTIVE,
        ),
        pytest.param({"normalize": "level"}, marks=EXHAUSTIVE),
        {"normalize": "streaming", "prenet": {"layers": 1, "size": 4, "window": 3, "activation": "gelu"}},
    ],
)
def test_every_kind_of_frames(fields: dict[str, Any], tmp_path: Path) -> None:
    assert check_task("transcribe", fields, tmp_path) <= TOLERANCE


@pytest.mark.parametrize("pooling", few(("last", "ends", "mean", "max", "attention"), "ends", "attention"))
def test_every_pooling(pooling: str, tmp_path: Path) -> None:
    encoder = {**tiny.RECURRENCE, "bidirectional": True}
    assert check_task("classify", {"pooling": pooling, "encoder": encoder}, tmp_path) <= TOLERANCE
