"""A Transformer decoder's compiled step equals that of its layers, whatever happens to states and weights."""

import copy
from itertools import product
from typing import Any

import pytest
import torch
from tests.contracts.registry import make_mask, noise, randomize
from tests.layers.compiled_step.comparison import (
    CHANGES,
    EVERY_DTYPE,
    MEMORY,
    WIDTH,
    S,
    V,
    assert_equal_states,
    compare,
    make_tokens,
    plain_step,
)
from torch import nn

from seqloom.kernels.program import program
from seqloom.layers import layer as layers
from seqloom.layers.build import recurrent
from seqloom.layers.embedding import Embedding
from seqloom.layers.layer import Memory
from seqloom.layers.transformer.block import transformer
from seqloom.models.decoder import Decoder, step

pytestmark = pytest.mark.sampled(6)


def build(dtype: torch.dtype = torch.float64, *, size: int = WIDTH, tied: bool = False, **options: Any) -> Decoder:
    torch.manual_seed(0)
    defaults = {"heads": 2, "feed_forward": 21, "layers": 2, "memory_size": MEMORY} | options
    decoder = Decoder(Embedding(V, size), transformer(size, WIDTH, **defaults), tied=tied)
    randomize(decoder, dtype=torch.float64)
    return decoder.to(dtype).eval()


def blocks(decoder: Any) -> Any:
    return decoder.layer.layers


def start(decoder: Decoder, batch: int, *, filling: float = 0.0, coverage: bool = False) -> Any:
    """Start from memories of all lengths, 0 included, with any padding."""
    mask = make_mask([(3 * row + 2) % (S + 1) for row in range(batch)], S)
    dtype = decoder.embed.weight.dtype
    values = torch.where(mask.unsqueeze(-1), noise(batch, S, MEMORY, seed=3), filling).to(dtype)
    return decoder.start(Memory(values, mask, ()), batch, coverage=coverage)


def check_same(decoder: Decoder, one: Any, other: Any, *, steps: int, first: int = 0) -> tuple[Any, Any]:
    return compare(decoder, one, other, reference=decoder, steps=steps, first=first)


OPTIONS: dict[str, dict[str, Any]] = (
    {
        f"{positions}-{norm}-{memory}-{context}": {
            "positions": positions,
            "norm": norm,
            "memory_size": memory,
            "context": context,
        }
        for positions, norm, memory, context in product(
            ("sinusoidal", "learned", "rotary", "alibi", "none"), ("pre", "post"), (0, MEMORY), (0, 3)
        )
    }
    | {
        f"{positions}-{combine}": {"positions": positions, "combine_positions": combine, "layers": 1}
        for positions, combine in product(("counts", "binary"), ("add", "concatenate"))
    }
    | {
        f"{positions}-concatenate": {"positions": positions, "combine_positions": "concatenate", "layers": 1}
        for positions in ("sinusoidal", "learned")
    }
)


@torch.no_grad()
@EVERY_DTYPE
@pytest.mark.parametrize("name", OPTIONS)
def test_programs_equal_the_layers(name: str, dtype: torch.dtype) -> None:
    decoder = build(dtype, **OPTIONS[name])
    for batch, steps in ((1, 2), (2, 5), (5, 1), (7, 2), (33, 1)):
        one, other = (start(decoder, batch) for _ in range(2))
        check_same(decoder, one, other, steps=steps)


@torch.no_grad()
@EVERY_DTYPE
@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "leaky_relu", "elu", "gelu", "none"])
def test_activations(activation: str, dtype: torch.dtype) -> None:
    decoder = build(dtype, activation=activation, layers=1)
    check_same(decoder, start(decoder, 3), start(decoder, 3), steps=2)


@torch.no_grad()
@pytest.mark.parametrize(("size", "tied"), [(WIDTH, True), (7, True), (7, False), (17, False)])
def test_other_widths(size: int, tied: bool) -> None:
    decoder = build(size=size, tied=tied)
    check_same(decoder, start(decoder, 3), start(decoder, 3), steps=3)


@torch.no_grad()
def test_concatenated_positions_beside_elements_as_they_are() -> None:
    decoder = build(size=WIDTH - 3, positions="sinusoidal", combine_positions="concatenate", position_size=3)
    check_same(decoder, start(decoder, 3), start(decoder, 3), steps=3)


@torch.no_grad()
@EVERY_DTYPE
@pytest.mark.parametrize("batch", [1, 3, 40])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_threads_share_columns_or_rows(
    batch: int, norm: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "SERIAL_LIMIT", 0)
    torch.set_num_threads(2)
    decoder = build(dtype, norm=norm, size=7, tied=True, feed_forward=300)
    one, other = (start(decoder, batch, coverage=True) for _ in range(2))
    check_same(decoder, one, other, steps=4)


@torch.no_grad()
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi"])
def test_long_sequences(positions: str) -> None:
    decoder = build(positions=positions, layers=1)
    check_same(decoder, start(decoder, 2), start(decoder, 2), steps=70)


@torch.no_grad()
@pytest.mark.parametrize("name", ["rotary-pre-6-0", "sinusoidal-post-6-3", "learned-pre-0-0"])
def test_states_can_be_branched_selected_and_repeated(name: str) -> None:
    decoder = build(**OPTIONS[name])
    root = check_same(decoder, start(decoder, 4), start(decoder, 4), steps=3)
    for change in CHANGES:
        one, other = (change(state) for state in root)
        one, other = check_same(decoder, one, other, steps=2, first=3)
        check_same(decoder, other, one, steps=2, first=5)  # a state of the one continues with the other
        check_same(decoder, one, other, steps=1, first=7)  # from a state that was continued before


@torch.no_grad()
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "none"])
def test_a_prefix_with_gaps(positions: str) -> None:
    decoder = build(positions=positions)
    mask = make_mask([4, 1, 0, 3], 4)
    tokens = make_tokens(16, 0).view(4, 4)
    _, one = decoder(tokens, start(decoder, 4), mask=mask)
    _, other = decoder(tokens, start(decoder, 4), mask=mask)
    check_same(decoder, one, other, steps=4)


@torch.no_grad()
def test_the_padding_of_a_memory_has_no_effect() -> None:
    decoder = build()
    expected = decoder.step(make_tokens(6, 0), start(decoder, 6))
    actual = decoder.step(make_tokens(6, 0), start(decoder, 6, filling=float("nan")))
    assert actual is not None
    assert expected is not None
    assert torch.equal(actual[0], expected[0])


@torch.no_grad()
def test_coverage_is_recorded() -> None:
    decoder = build()
    one, other = (start(decoder, 5, coverage=True) for _ in range(2))
    one, other = check_same(decoder, one, other, steps=4)
    actual, expected = layers.coverage(one), layers.coverage(other)
    assert actual is not None
    assert expected is not None
    assert_equal_states(actual, expected)
    assert expected.sum() > 1


@torch.no_grad()
def test_changes_of_the_decoder_are_noticed() -> None:
    decoder = build()
    block = blocks(decoder)[1]

    def change_in_place() -> None:
        decoder.output.bias.add_(1)
        block.feed_forward[0].weight.mul_(2)
        block.norms[1].weight.mul_(2)

    def replace() -> None:
        block.output.weight = nn.Parameter(block.output.weight * 2)
        decoder.embed.weight.data = decoder.embed.weight * 2

    def replace_modules() -> None:
        block.feed_forward[1] = nn.Tanh().eval()
        decoder.register_module("output", nn.Linear(WIDTH, V).double().eval())

    def adjust() -> None:
        block.norms[0].eps = 1.0

    def train() -> None:
        decoder.train().eval()

    for change in (change_in_place, replace, replace_modules, adjust, train):
        one, other = check_same(decoder, start(decoder, 3), start(decoder, 3), steps=2)
        change()
        check_same(decoder, one, other, steps=2)


@torch.no_grad()
def test_unsupported_cases_run_the_layers() -> None:
    tokens = make_tokens(2, 0)
    decoder = build()
    state = start(decoder, 2)
    assert decoder.step(tokens, state) is not None
    with torch.enable_grad():
        assert decoder.step(tokens, state) is None
    assert decoder.step(tokens, None) is None
    assert decoder.step(tokens[:0], start(decoder, 0)) is None
    assert decoder.step(tokens, start(decoder, 3)) is None
    calls: list[object] = []
    hook = blocks(decoder)[1].output.register_forward_hook(lambda *arguments: calls.append(arguments))
    actual, _ = step(decoder, tokens, state)
    assert len(calls) == 1
    hook.remove()
    assert torch.equal(actual, plain_step(decoder, tokens, state)[0])
    assert decoder.train().step(tokens, state) is None
    for other in (build(positions="relative"), build(context=1), build().half().eval()):
        assert other.step(tokens, start(other, 2)) is None
        assert other.path.startswith("layers: ")
    alibi = build(positions="alibi")  # a prefix with gaps: its distances do not follow from the slots
    _, gaps = alibi(make_tokens(4, 0).view(2, 2), start(alibi, 2), mask=make_mask([2, 1], 2))
    assert alibi.step(tokens, gaps) is None
    layer = recurrent("lstm", WIDTH, 5, bidirectional=True)
    assert Decoder(Embedding(V, WIDTH), layer).eval().step(tokens, layer.start(2)) is None


@torch.no_grad()
def test_errors_are_those_of_the_layers() -> None:
    decoder = build(positions="learned", max_positions=2)
    state = start(decoder, 2)
    with pytest.raises(IndexError):
        step(decoder, torch.tensor([1, V]), state)
    for index in range(2):
        _, state = step(decoder, make_tokens(2, index), state)
    with pytest.raises(ValueError, match="longer than the 2 learned positions"):
        step(decoder, make_tokens(2, 2), state)


@torch.no_grad()
def test_a_copy_compiles_its_own_program() -> None:
    decoder = build()
    state = start(decoder, 2)
    before = step(decoder, make_tokens(2, 0), state)[0]
    other = copy.deepcopy(decoder)
    randomize(other, seed=5)
    check_same(other.double(), start(other, 2), start(other, 2), steps=2)
    assert torch.equal(step(decoder, make_tokens(2, 0), state)[0], before)
