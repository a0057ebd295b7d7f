"""Several steps in one call choose the same tokens as single steps, bit for bit, and leave the same state."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.layers.compiled_step import test_compiled_recurrent, test_stepper
from tests.layers.compiled_step.comparison import EVERY_DTYPE, MEMORY, WIDTH, V, make_tokens
from tests.layers.compiled_step.test_stepper import OPTIONS
from torch import Tensor

from seqloom import state as states
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.sample import Sample
from seqloom.kernels.program import program
from seqloom.layers.build import recurrent
from seqloom.layers.compiled_step.choosing import MIN_STEPS, Choice
from seqloom.models.decoder import Decoder, DecoderStep, step

pytestmark = pytest.mark.sampled(6)

SUPPRESSED = torch.tensor([0, 3])
NO_END = 0  # is suppressed
Start = Callable[[Decoder, int], Any]


def one_by_one(
    decoder: Decoder, tokens: Tensor, state: Any, choice: Choice
) -> tuple[Tensor, Tensor, Any]:  # (T, B), (T, B), state
    """Steps and NumPy's argmax."""
    chosen, values = [], []
    for _ in range(choice.steps):
        result = decoder.step(tokens, state)
        assert result is not None
        scores, state = result
        scores[:, choice.suppressed] = -torch.inf
        tokens = torch.from_numpy(scores.numpy().argmax(axis=1))
        chosen.append(tokens)
        values.append(scores.gather(1, tokens.unsqueeze(1)).squeeze(1))
        if (tokens == choice.end).any():
            break
    return torch.stack(chosen), torch.stack(values), state


def assert_identical(one: Any, other: Any) -> None:
    """Check that two states are the same, bit for bit, in used slots."""
    if isinstance(one, Tensor):
        assert torch.equal(one, other)
        return
    assert type(one) is type(other)
    if hasattr(one, "slots"):
        one, other = (
            (cache.keys[:, : cache.length], cache.values[:, : cache.length], cache.real(), *cache[3:])
            for cache in (one, other)
        )
    for left, right in zip(one, other, strict=True):
        assert_identical(left, right)


def check(decoder: Decoder, start: Start, batch: int, *, steps: int, end: int = NO_END) -> tuple[Any, Any]:
    """Compare a call of several steps with single ones, from equal states; return the states after them."""
    tokens, choice = make_tokens(batch, 0), Choice(end, SUPPRESSED, 1e-3, steps)
    result = decoder.choose(tokens, start(decoder, batch), choice)
    assert result is not None
    expected, values, state = one_by_one(decoder, tokens, start(decoder, batch), choice)
    assert torch.equal(result.tokens, expected)
    assert torch.equal(result.log_probabilities, values)
    assert_identical(result.state, state)
    return result.state, state


def transformer_start(decoder: Decoder, batch: int) -> Any:
    return test_stepper.start(decoder, batch, coverage=True)


@torch.no_grad()
@EVERY_DTYPE
@pytest.mark.parametrize("name", [name for name, options in OPTIONS.items() if not options.get("context")])
def test_transformers(name: str, dtype: torch.dtype) -> None:
    decoder = test_stepper.build(dtype, **OPTIONS[name])
    for batch, steps in ((1, 9), (2, 1), (3, MIN_STEPS), (33, 5)):
        check(decoder, transformer_start, batch, steps=steps)


def recurrent_start(decoder: Decoder, batch: int) -> Any:
    return test_compiled_recurrent.start(decoder, batch, coverage=True)


@torch.no_grad()
@EVERY_DTYPE
@pytest.mark.parametrize("score", ["multiplicative", "dot", "scaled", "cosine"])
@pytest.mark.parametrize(("depth", "heads"), [(1, 0), (2, 3)])
def test_recurrent_decoders_with_attention(score: str, depth: int, heads: int, dtype: torch.dtype) -> None:
    layer = test_compiled_recurrent.with_attention(score=score, depth=depth, heads=heads)
    decoder = test_compiled_recurrent.build(layer, dtype)
    for batch, steps in ((1, 9), (2, 1), (3, MIN_STEPS), (33, 5)):
        check(decoder, recurrent_start, batch, steps=steps)


@torch.no_grad()
@EVERY_DTYPE
@pytest.mark.parametrize("name", ["lstm", "gru", "elman", "slstm"])
def test_recurrent_language_models(name: str, dtype: torch.dtype) -> None:
    decoder = test_compiled_recurrent.build(recurrent(name, WIDTH, WIDTH, layers=2), dtype)
    for batch in (1, 4):
        check(decoder, lambda decoder, batch: decoder.start(None, batch), batch, steps=7)


@torch.no_grad()
@pytest.mark.parametrize("batch", [1, 3, 40])
def test_threads(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "SERIAL_LIMIT", 0)
    torch.set_num_threads(2)
    check(test_stepper.build(), transformer_start, batch, steps=9)
    decoder = test_compiled_recurrent.build(test_compiled_recurrent.with_attention(depth=2))
    check(decoder, recurrent_start, batch, steps=9)


@torch.no_grad()
def test_a_row_that_ends_stops_all_and_states_go_on() -> None:
    decoder = test_stepper.build()
    tokens = one_by_one(
        decoder, make_tokens(4, 0), transformer_start(decoder, 4), Choice(NO_END, SUPPRESSED, 1e-3, 12)
    )[0]
    one, other = check(decoder, transformer_start, 4, steps=12, end=int(tokens[5, 2]))
    for rows in ([0, 1, 2, 3], [2], [3, 0, 0]):
        selected = [states.select(state, torch.tensor(rows)) for state in (one, other)]
        check(decoder, lambda *_, pair=selected: pair.pop(), len(rows), steps=3)
    for _ in range(2):  # a state can be continued more than once
        check(decoder, lambda *_, pair=[one, other]: pair.pop(), 4, steps=2)


@torch.no_grad()
def test_windows_and_gaps_are_left_to_single_steps() -> None:
    decoder = test_stepper.build(context=3, memory_size=0)
    choice = Choice(NO_END, SUPPRESSED, 1e-3, 5)
    assert decoder.choose(make_tokens(2, 0), decoder.start(None, 2), choice) is None
    assert decoder.choose(make_tokens(2, 0), decoder.start(None, 2), choice._replace(steps=3)) is not None
    whole = test_stepper.build(memory_size=0)
    mask = torch.tensor([[True, True], [True, False]])
    _, state = whole(torch.tensor([[1, 2], [3, 0]]), whole.start(None, 2), mask=mask)
    assert whole.choose(make_tokens(2, 0), state, choice) is None


@torch.no_grad()
def test_learned_positions_end() -> None:
    decoder = test_stepper.build(positions="learned", max_positions=6, memory_size=0)
    result = decoder.choose(make_tokens(2, 0), decoder.start(None, 2), Choice(NO_END, SUPPRESSED, 1e-3, 9))
    assert result is not None
    assert len(result.tokens) == 6
    assert decoder.choose(result.tokens[-1], result.state, Choice(NO_END, SUPPRESSED, 1e-3, 9)) is None


@torch.no_grad()
def test_what_cannot_be_chosen() -> None:
    decoder = test_stepper.build(memory_size=0)
    tokens = make_tokens(2, 0)

    def choose(end: int = 1, suppressed: tuple[int, ...] = ()) -> Any:
        choice = Choice(end, torch.tensor(suppressed, dtype=torch.int64), 1e-3, 3)
        return decoder.choose(tokens, decoder.start(None, 2), choice)

    for end, suppressed in ((V, ()), (-1, ()), (1, (V,)), (1, (2, -1))):
        assert choose(end, suppressed) is None
    result = choose(suppressed=tuple(range(V)))  # no token is left
    assert result.log_probabilities.tolist() == [[-torch.inf] * 2]
    decoder.output.bias[5] = torch.nan
    assert choose().log_probabilities.isnan().tolist() == [[True] * 2]
    decoder.train()
    assert choose() is None


@torch.no_grad()
@pytest.mark.parametrize("search", [Greedy(), Sample(temperature=0, count=2)])
def test_searches(search: Any) -> None:
    decoder = test_stepper.build(memory_size=MEMORY)
    lengths = torch.tensor([0, 7, 40, 19, 40])

    def run(function: Any, end: int) -> Any:
        state, begin = test_stepper.start(decoder, 5), torch.ones(5, dtype=torch.int64)
        return search(function, state, begin, end, lengths=lengths, suppress=(0,))

    def plain(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return step(decoder, tokens, state)

    frequent = torch.tensor([row[0].tokens for row in run(plain, 0)[2:3]]).mode().values.item()
    for end in (0, int(frequent)):
        assert run(DecoderStep(decoder), end) == run(plain, end)
