"""A step of recurrences by compiled calls is the step of the plain layers (law 4), whatever happens in between."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.contracts.registry import cells, make_mask, noise, randomize
from tests.layers.stepping import CHANGES, EVERY_TYPE, MEMORY, WIDTH, S, V, compare, drawn
from torch import nn

from seqloom import state as states
from seqloom.cells.cell import Cell
from seqloom.cells.lstm import LSTM
from seqloom.kernels.program import program, source_attention
from seqloom.layers import compiled_recurrent
from seqloom.layers import layer as layers
from seqloom.layers.attention.attention import Attention
from seqloom.layers.attention.decoder_attention import AttentionState, BahdanauAttention, LuongAttention, Source
from seqloom.layers.attention.hard import HardAttention
from seqloom.layers.bridge import BridgedLayer
from seqloom.layers.build import recurrent
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Layer, Memory
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.stack import Stack
from seqloom.models.decoder import Decoder, step
from seqloom.state import Shared


def decoder(layer: Layer, dtype: torch.dtype = torch.float64, *, tied: bool = False) -> Decoder:
    made = Decoder(Embedding(V, layer.input_size), layer, tied=tied)
    randomize(made, dtype=torch.float64)
    return made.to(dtype).eval()


def looking(*, score: str = "multiplicative", bridge: str = "linear", depth: int = 1) -> Layer:
    """Recurrences with attention after them, as translation has them."""
    width = WIDTH if score == "multiplicative" else MEMORY
    below = recurrent("lstm", 7, width, layers=depth)
    stack = Stack([below, LuongAttention(Attention(width, MEMORY, score=score), 9)])
    return BridgedLayer(stack, None, memory_size=MEMORY, kind=bridge)


def start(made: Decoder, batch: int, *, coverage: bool = False) -> Any:
    """Memories of all lengths, none among them."""
    mask = make_mask([(3 * row + 2) % (S + 1) for row in range(batch)], S)
    values = torch.where(mask.unsqueeze(-1), noise(batch, S, MEMORY, seed=3), 0).to(made.embed.weight.dtype)
    return made.start(Memory(values, mask, ()), batch, coverage=coverage)


def slow(made: Decoder) -> Decoder:
    """The same decoder by plain loops."""
    other = copy.deepcopy(made)
    for part in other.modules():
        if isinstance(part, Recurrent):
            part.fused = False
    return other


def check_same(made: Decoder, one: Any, other: Any, *, steps: int, begin: int = 0) -> tuple[Any, Any]:
    return compare(made, one, other, truth=slow(made), steps=steps, begin=begin)


@torch.no_grad()
@EVERY_TYPE
@pytest.mark.parametrize("name", cells())
def test_every_cell(name: str, dtype: torch.dtype) -> None:
    cell = cells()[name](WIDTH, WIDTH)
    made = decoder(Recurrent(cell), dtype)
    for batch in (1, 5):
        state = made.start(None, batch)
        if type(cell).project is not Cell.project:  # the kernel does not do the whole step
            assert made.step(drawn(batch, 0), state) is None
            continue
        check_same(made, state, state, steps=3)


@torch.no_grad()
@EVERY_TYPE
@pytest.mark.parametrize("batch", [1, 2, 5, 33])
@pytest.mark.parametrize("score", ["multiplicative", "dot", "scaled"])
def test_attention_after_recurrences(score: str, batch: int, dtype: torch.dtype) -> None:
    for depth, tied in ((1, True), (2, False)):
        made = decoder(looking(score=score, depth=depth), dtype, tied=tied)
        one, other = (start(made, batch, coverage=True) for _ in range(2))
        one, other = check_same(made, one, other, steps=3)
        found = layers.coverage(one)
        assert found is not None
        assert found.sum() > 1


@torch.no_grad()
@EVERY_TYPE
@pytest.mark.parametrize("batch", [1, 3, 40])
def test_threads_share_columns_or_rows(batch: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (program, compiled_recurrent, source_attention):
        monkeypatch.setattr(module, "SERIAL_LIMIT", 0)
    torch.set_num_threads(2)
    made = decoder(looking(depth=2), dtype, tied=True)
    check_same(made, start(made, batch), start(made, batch), steps=4)


@torch.no_grad()
def test_what_the_padding_of_a_source_holds_is_not_seen() -> None:
    made = decoder(looking(bridge="zero"))
    mask, values = make_mask([3, 0, 5, 1], S), noise(4, S, MEMORY)
    found = []
    for filling in (0.0, float("nan")):
        filled = torch.where(mask.unsqueeze(-1), values, filling)
        done = made.step(drawn(4, 0), made.start(Memory(filled, mask, ()), 4))
        assert done is not None
        found.append(done[0])
    assert torch.equal(*found)


@torch.no_grad()
def test_states_can_be_branched_selected_and_repeated() -> None:
    made = decoder(looking())
    root = check_same(made, start(made, 4), start(made, 4), steps=3)
    for change in CHANGES:
        one, other = (change(state) for state in root)
        one, other = check_same(made, one, other, steps=2, begin=3)
        check_same(made, other, one, steps=2, begin=5)  # a state of the one goes on with the other


@torch.no_grad()
def test_changes_of_the_decoder_are_noticed() -> None:
    made = decoder(looking())
    below: Any = made.layer
    first, after = below.layer.layers
    cell = first.cell

    def change_in_place() -> None:
        cell.recurrent.weight.mul_(2)
        cell.input.bias.add_(1)
        made.output.bias.add_(1)

    def replace() -> None:
        after.output.weight = nn.Parameter(after.output.weight * 2)
        cell.input.weight = nn.Parameter(cell.input.weight * 2)

    def note() -> None:
        cell.note = 3

    def exchange() -> None:
        first.cell = LSTM(7, WIDTH).double().eval()

    def train() -> None:
        made.train().eval()

    for change in (change_in_place, replace, note, exchange, train):
        one, other = check_same(made, start(made, 3), start(made, 3), steps=2)
        change()
        check_same(made, one, other, steps=2)


def strangers(seen: AttentionState) -> Iterator[AttentionState]:
    """States that would be read, or written to, beyond their ends."""
    (prepared, values, mask), rows = seen.source
    yield seen._replace(source=Shared(Source(prepared, values[:, :, :4].contiguous(), mask), rows))
    yield seen._replace(source=Shared(Source(prepared[:, :, :4].contiguous(), values, mask), rows))
    yield seen._replace(source=Shared(Source(prepared[:, :-1].contiguous(), values, mask), rows))
    yield seen._replace(source=Shared(Source(prepared, values, mask[:, :-1].contiguous()), rows))
    yield seen._replace(source=Shared(Source(prepared, values, mask[:1]), rows))
    yield seen._replace(source=Shared(seen.source.parts, rows[:1]))
    yield seen._replace(source=Shared(seen.source.parts, rows.int()))
    yield seen._replace(source=Shared(seen.source.parts, rows + 1))
    yield seen._replace(source=Shared(seen.source.parts, rows - 1))
    yield seen._replace(coverage=torch.zeros(2, S - 1, dtype=torch.float64))
    yield seen._replace(coverage=torch.zeros(1, S, dtype=torch.float64))
    yield seen._replace(coverage=torch.zeros(2, S))


@torch.no_grad()
def test_what_is_not_for_compiled_calls_goes_the_plain_way() -> None:
    tokens = drawn(2, 0)
    made = decoder(looking())
    state = start(made, 2)
    assert made.step(tokens, state) is not None
    for wrong in (None, (), start(made, 3), state[:1], states.apply(lambda part: part.float(), state)):
        assert made.step(tokens, wrong) is None
    for unlike in strangers(state[1]):
        assert made.step(tokens, (state[0], unlike)) is None
    with torch.enable_grad():
        assert made.step(tokens, state) is None
    seen: list[object] = []
    below: Any = made.layer
    hook = below.layer.layers[0].register_forward_hook(lambda *given: seen.append(given))
    step(made, tokens, state)
    assert len(seen) == 1
    hook.remove()
    assert slow(made).step(tokens, state) is None
    assert made.train().step(tokens, state) is None


@torch.no_grad()
@pytest.mark.parametrize(
    "layer",
    [
        recurrent("lstm", WIDTH, WIDTH, reverse=True),
        recurrent("lstm", WIDTH, WIDTH, layers=2, connection="highway"),
        Stack([recurrent("lstm", WIDTH, WIDTH), LuongAttention(Attention(WIDTH, MEMORY, score="additive"), WIDTH)]),
        Stack([recurrent("lstm", WIDTH, WIDTH), LuongAttention(HardAttention(WIDTH, MEMORY), WIDTH)]),
        BahdanauAttention(LSTM(WIDTH + MEMORY, WIDTH), Attention(WIDTH, MEMORY)),
    ],
    ids=["reverse", "highway", "additive", "hard", "before"],
)
def test_other_layers_go_the_plain_way(layer: Layer) -> None:
    made = decoder(layer)
    assert made.step(drawn(2, 0), start(made, 2)) is None


@torch.no_grad()
def test_errors_are_those_of_the_layers() -> None:
    made = decoder(looking())
    with pytest.raises(IndexError):
        step(made, torch.tensor([1, V]), start(made, 2))
    with pytest.raises(ValueError, match="shape"):
        step(made, drawn(2, 0), start(made, 3))
    below, seen = start(made, 2)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        step(made, drawn(2, 0), (below, next(strangers(seen))))
