"""A recurrent decoder's compiled step equals that of its layers, whatever happens to states and weights."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.contracts.registry import cells, make_mask, noise, randomize
from tests.layers.compiled_step.comparison import CHANGES, EVERY_DTYPE, MEMORY, WIDTH, S, V, compare, make_tokens
from torch import nn

from seqloom import state as states
from seqloom.cells.cell import Cell
from seqloom.cells.lstm import LSTM
from seqloom.cells.mogrifier_lstm import MogrifierLSTM
from seqloom.kernels.program import program
from seqloom.layers import layer as layers
from seqloom.layers.attention.attention import Attention, AttentionMechanism
from seqloom.layers.attention.decoder_attention import (
    AttentionSource,
    AttentionState,
    BahdanauAttention,
    LuongAttention,
)
from seqloom.layers.attention.hard import HardAttention
from seqloom.layers.attention.projected import ProjectedAttention
from seqloom.layers.bridge import BridgedLayer
from seqloom.layers.build import recurrent
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Layer, Memory
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack
from seqloom.models.decoder import Decoder, step
from seqloom.state import Shared

pytestmark = pytest.mark.sampled(6)


def build(layer: Layer, dtype: torch.dtype = torch.float64, *, tied: bool = False) -> Decoder:
    decoder = Decoder(Embedding(V, layer.input_size), layer, tied=tied)
    randomize(decoder, dtype=torch.float64)
    return decoder.to(dtype).eval()


def with_attention(
    *, score: str = "multiplicative", bridge: str = "linear", depth: int = 1, heads: int = 0, output_size: int = 9
) -> Layer:
    """Recurrent layers followed by attention, as in translation."""
    width = WIDTH if score == "multiplicative" else MEMORY
    below = recurrent("lstm", 7, width, layers=depth)
    attention: AttentionMechanism = Attention(width, MEMORY, score=score)
    if heads:
        head = Attention(5, 5, score=score)
        attention = ProjectedAttention(width, MEMORY, attention=head, heads=heads, value_size=2)
    stack = Stack([below, LuongAttention(attention, output_size)])
    return BridgedLayer(stack, None, memory_size=MEMORY, kind=bridge)


def start(decoder: Decoder, batch: int, *, coverage: bool = False) -> Any:
    """Start from memories of all lengths, 0 included."""
    mask = make_mask([(3 * row + 2) % (S + 1) for row in range(batch)], S)
    values = torch.where(mask.unsqueeze(-1), noise(batch, S, MEMORY, seed=3), 0).to(decoder.embed.weight.dtype)
    return decoder.start(Memory(values, mask, ()), batch, coverage=coverage)


def without_kernels(decoder: Decoder) -> Decoder:
    """Copy of the decoder that runs plain loops."""
    other = copy.deepcopy(decoder)
    for part in other.modules():
        if isinstance(part, Recurrent):
            part.fused = False
    return other


def check_same(decoder: Decoder, one: Any, other: Any, *, steps: int, first: int = 0) -> tuple[Any, Any]:
    return compare(decoder, one, other, reference=without_kernels(decoder), steps=steps, first=first)


@torch.no_grad()
@EVERY_DTYPE
@pytest.mark.parametrize("name", cells())
def test_every_cell(name: str, dtype: torch.dtype) -> None:
    cell = cells()[name](WIDTH, WIDTH)
    decoder = build(Recurrent(cell), dtype)
    for batch in (1, 5):
        state = decoder.start(None, batch)
        if type(cell).project is not Cell.project or isinstance(cell, MogrifierLSTM):
            assert decoder.step(make_tokens(batch, 0), state) is None
            assert "has no fused kernel for the whole step" in decoder.path
            continue
        check_same(decoder, state, state, steps=3)


@torch.no_grad()
@EVERY_DTYPE
@pytest.mark.parametrize("batch", [1, 2, 5, 33])
@pytest.mark.parametrize("score", ["multiplicative", "dot", "scaled"])
def test_attention_after_recurrent_layers(score: str, batch: int, dtype: torch.dtype) -> None:
    for depth, tied in ((1, True), (2, False)):
        decoder = build(with_attention(score=score, depth=depth), dtype, tied=tied)
        one, other = (start(decoder, batch, coverage=True) for _ in range(2))
        one, other = check_same(decoder, one, other, steps=3)
        coverage = layers.coverage(one)
        assert coverage is not None
        assert coverage.sum() > 1


@torch.no_grad()
@EVERY_DTYPE
@pytest.mark.parametrize("score", ["multiplicative", "scaled", "cosine"])
def test_attention_heads_and_outputs_without_projection(score: str, dtype: torch.dtype) -> None:
    for heads, output_size, tied in ((3, 9, False), (1, 0, False), (2, 0, True)):
        decoder = build(with_attention(score=score, heads=heads, output_size=output_size), dtype, tied=tied)
        one, other = (start(decoder, 3, coverage=True) for _ in range(2))
        check_same(decoder, one, other, steps=3)
        assert decoder.path == "compiled"


@torch.no_grad()
@EVERY_DTYPE
@pytest.mark.parametrize("batch", [1, 3, 40])
def test_threads_share_columns_or_rows(batch: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "SERIAL_LIMIT", 0)
    torch.set_num_threads(2)
    decoder = build(with_attention(depth=2), dtype, tied=True)
    check_same(decoder, start(decoder, batch), start(decoder, batch), steps=4)


@torch.no_grad()
def test_the_padding_of_a_source_has_no_effect() -> None:
    decoder = build(with_attention(bridge="zero"))
    mask, values = make_mask([3, 0, 5, 1], S), noise(4, S, MEMORY)
    outputs = []
    for filling in (0.0, float("nan")):
        filled = torch.where(mask.unsqueeze(-1), values, filling)
        result = decoder.step(make_tokens(4, 0), decoder.start(Memory(filled, mask, ()), 4))
        assert result is not None
        outputs.append(result[0])
    assert torch.equal(*outputs)


@torch.no_grad()
def test_states_can_be_branched_selected_and_repeated() -> None:
    decoder = build(with_attention())
    root = check_same(decoder, start(decoder, 4), start(decoder, 4), steps=3)
    for change in CHANGES:
        one, other = (change(state) for state in root)
        one, other = check_same(decoder, one, other, steps=2, first=3)
        check_same(decoder, other, one, steps=2, first=5)  # a state of the one continues with the other


@torch.no_grad()
def test_changes_of_the_decoder_are_noticed() -> None:
    decoder = build(with_attention())
    below: Any = decoder.layer
    first, after = below.layer.layers
    cell = first.cell

    def change_in_place() -> None:
        cell.recurrent.weight.mul_(2)
        cell.input.bias.add_(1)
        decoder.output.bias.add_(1)

    def replace() -> None:
        after.output.weight = nn.Parameter(after.output.weight * 2)
        cell.input.weight = nn.Parameter(cell.input.weight * 2)

    def note() -> None:
        cell.note = 3

    def replace_cell() -> None:
        first.cell = LSTM(7, WIDTH).double().eval()

    def train() -> None:
        decoder.train().eval()

    for change in (change_in_place, replace, note, replace_cell, train):
        one, other = check_same(decoder, start(decoder, 3), start(decoder, 3), steps=2)
        change()
        check_same(decoder, one, other, steps=2)


def mismatched(state: AttentionState) -> Iterator[AttentionState]:
    """States that would be read or written beyond their ends."""
    (prepared, values, mask), rows = state.source
    yield state._replace(source=Shared(AttentionSource(prepared, values[:, :, :4].contiguous(), mask), rows))
    yield state._replace(source=Shared(AttentionSource(prepared[:, :, :4].contiguous(), values, mask), rows))
    yield state._replace(source=Shared(AttentionSource(prepared[:, :-1].contiguous(), values, mask), rows))
    yield state._replace(source=Shared(AttentionSource(prepared, values, mask[:, :-1].contiguous()), rows))
    yield state._replace(source=Shared(AttentionSource(prepared, values, mask[:1]), rows))
    yield state._replace(source=Shared(state.source.parts, rows[:1]))
    yield state._replace(source=Shared(state.source.parts, rows.int()))
    yield state._replace(source=Shared(state.source.parts, rows + 1))
    yield state._replace(source=Shared(state.source.parts, rows - 1))
    yield state._replace(coverage=torch.zeros(2, S - 1, dtype=torch.float64))
    yield state._replace(coverage=torch.zeros(1, S, dtype=torch.float64))
    yield state._replace(coverage=torch.zeros(2, S))


@torch.no_grad()
def test_unsupported_cases_run_the_layers() -> None:
    tokens = make_tokens(2, 0)
    decoder = build(with_attention())
    state = start(decoder, 2)
    assert decoder.step(tokens, state) is not None
    for wrong in (None, (), start(decoder, 3), state[:1], states.apply(lambda part: part.float(), state)):
        assert decoder.step(tokens, wrong) is None
    for other in mismatched(state[1]):
        assert decoder.step(tokens, (state[0], other)) is None
    with torch.enable_grad():
        assert decoder.step(tokens, state) is None
    calls: list[object] = []
    below: Any = decoder.layer
    hook = below.layer.layers[0].register_forward_hook(lambda *arguments: calls.append(arguments))
    step(decoder, tokens, state)
    assert len(calls) == 1
    hook.remove()
    assert without_kernels(decoder).step(tokens, state) is None
    assert decoder.train().step(tokens, state) is None


@torch.no_grad()
@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (recurrent("lstm", WIDTH, WIDTH, reverse=True), "Recurrent is no forward recurrent layer"),
        (recurrent("lstm", WIDTH, WIDTH, layers=2, connection="highway"), "the layers have skip connections"),
        (
            Stack([recurrent("lstm", WIDTH, WIDTH), LuongAttention(Attention(WIDTH, MEMORY, score="additive"), WIDTH)]),
            "the score Additive is no dot product of the query and prepared keys",
        ),
        (
            Stack([recurrent("lstm", WIDTH, WIDTH), LuongAttention(HardAttention(WIDTH, MEMORY), WIDTH)]),
            "HardAttention is not compiled, only soft attention",
        ),
        (
            BahdanauAttention(LSTM(WIDTH + MEMORY, WIDTH), Attention(WIDTH, MEMORY)),
            "BahdanauAttention is no forward recurrent layer",
        ),
    ],
    ids=["reverse", "highway", "additive", "hard", "bahdanau"],
)
def test_other_layers_are_not_compiled(layer: Layer, reason: str) -> None:
    decoder = build(layer)
    assert decoder.step(make_tokens(2, 0), start(decoder, 2)) is None
    assert decoder.path == f"layers: {reason}"


@torch.no_grad()
def test_errors_are_those_of_the_layers() -> None:
    decoder = build(with_attention())
    with pytest.raises(IndexError):
        step(decoder, torch.tensor([1, V]), start(decoder, 2))
    with pytest.raises(ValueError, match="shape"):
        step(decoder, make_tokens(2, 0), start(decoder, 3))
    below, attention = start(decoder, 2)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        step(decoder, make_tokens(2, 0), (below, next(mismatched(attention))))
