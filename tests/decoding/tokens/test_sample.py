"""Draws against the exact distribution, and the cuts against sets found by brute force."""

import math
from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats
from tests.decoding.reference import Limits, Toy, everything
from torch import Tensor

from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.sample import Sample
from seqloom.decoding.tokens.search import Hypothesis


def exact(
    scores: Sequence[float], *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0
) -> list[float]:
    """By hand: the most probable first (the lower symbol where equal), taken until a limit is reached."""
    largest = max(scores)
    weights = [math.exp((score - largest) / temperature) for score in scores]
    probabilities = [weight / math.fsum(weights) for weight in weights]
    order = sorted(range(len(scores)), key=lambda symbol: (-probabilities[symbol], symbol))
    kept: list[int] = []
    for symbol in order:
        before = sum(probabilities[other] for other in kept)
        full = (top_k and len(kept) == top_k) or before >= top_p
        improbable = probabilities[symbol] < min_p * probabilities[order[0]]
        if kept and (full or improbable):
            break
        kept.append(symbol)
    share = math.fsum(probabilities[symbol] for symbol in kept)
    return [probabilities[symbol] / share if symbol in kept else 0.0 for symbol in range(len(scores))]


def draws(sample: Sample, scores: Sequence[float], count: int) -> list[int]:
    random = torch.Generator().manual_seed(sample.seed)
    rows = torch.tensor(scores, dtype=torch.float64).expand(count, -1)
    found: list[int] = sample.draw(rows, random).tolist()
    return found


@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 0.5}, {"temperature": 2.0}, {"top_k": 3}, {"top_p": 0.7}, {"min_p": 0.3}],
    ids=str,
)
def test_frequencies_are_those_of_the_distribution(options: dict[str, float]) -> None:
    scores = torch.tensor([0.1, 2.0, -1.0, 1.2, 0.4, -3.0]).log_softmax(dim=0).tolist()
    count = 20_000
    found = draws(Sample.model_validate(options), scores, count)
    wanted = exact(scores, **options)  # type: ignore[arg-type]
    possible = [symbol for symbol, probability in enumerate(wanted) if probability]
    observed = [found.count(symbol) for symbol in possible]
    assert sum(observed) == count
    expected = [count * wanted[symbol] for symbol in possible]
    assert stats.chisquare(observed, expected).pvalue > 1e-3  # the seed is fixed: this holds or it does not


@given(
    scores=st.lists(st.floats(-8, 0), min_size=1, max_size=9),
    temperature=st.sampled_from([0.3, 1.0, 1.7]),
    top_k=st.integers(0, 10),
    top_p=st.sampled_from([0.011, 0.313, 0.717, 0.9713, 1.0]),
    min_p=st.sampled_from([0.0, 0.0573, 0.517, 1.0]),
)
def test_the_distribution_is_cut_exactly(
    scores: list[float], temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    scores = [round(score, 3) + 1e-6 * symbol for symbol, score in enumerate(scores)]  # no two are equal by chance
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    found = Sample.model_validate(options).distribution(torch.tensor([scores], dtype=torch.float64))[0]
    assert found.tolist() == pytest.approx(exact(scores, **options), abs=1e-12)  # type: ignore[arg-type]


def test_equal_symbols_are_cut_from_the_end() -> None:
    found = Sample(top_k=2).distribution(torch.zeros(1, 4, dtype=torch.float64))
    assert found.tolist() == [[0.5, 0.5, 0, 0]]


def test_without_temperature_the_most_probable_is_chosen() -> None:
    scores = torch.randn(50, 9, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    random = torch.Generator()
    assert Sample(temperature=0.0).draw(scores, random).tolist() == scores.argmax(dim=1).tolist()
    cold = Sample(temperature=1e-310).draw(scores, random)  # as near as a float can come to it
    assert cold.tolist() == scores.argmax(dim=1).tolist()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    "row", [[0.0, math.nan], [-math.inf, -math.inf], [math.inf, 0.0], [math.inf, -math.inf]], ids=str
)
def test_no_distribution_is_an_error(temperature: float, row: list[float]) -> None:
    scores = torch.tensor([[0.0, -1.0], row])
    with pytest.raises(ValueError, match="the distribution to draw from is empty or not a number"):
        Sample(temperature=temperature).draw(scores, torch.Generator())


def test_impossible_symbols_are_never_drawn() -> None:
    assert set(draws(Sample(), [-math.inf, 0.0, -math.inf], 100)) == {1}


def chain(tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """After n comes n + 1 with probability 2 / 3, n + 2 with 1 / 3; the state counts the steps."""
    scores = torch.full((len(tokens), 5), -torch.inf)
    rows = torch.arange(len(tokens))
    scores[rows, (tokens + 1) % 5] = math.log(2 / 3)
    scores[rows, (tokens + 2) % 5] = math.log(1 / 3)
    return scores, state + 1


def walk(sample: Sample, *, start: Sequence[int], length: int = 12, end: int | None = None) -> list[list[int]]:
    stream = sample.stream(chain, torch.zeros(1), torch.tensor(start), length=length, end=end)
    return [tokens.tolist() for tokens in stream]


def test_a_stream_follows_its_steps() -> None:
    assert walk(Sample(temperature=0.0), start=[0, 3], length=4) == [[1, 4], [2, 0], [3, 1], [4, 2]]


def test_the_seed_decides() -> None:
    one, same, other = (walk(Sample(seed=seed), start=[0, 1, 2]) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_drawing_leaves_other_random_numbers_alone() -> None:
    before = torch.get_rng_state()
    walk(Sample(), start=[0])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_stream_ends_where_all_rows_have_ended() -> None:
    found = walk(Sample(temperature=0.0), start=[0, 2], end=4)
    assert found == [[1, 3], [2, 4], [3, 4], [4, 4]]


def test_some_symbols_are_never_drawn() -> None:
    stream = Sample().stream(chain, torch.zeros(1), torch.tensor([0]), length=50, never=(2, 4))
    found = [int(tokens) for tokens in stream]
    assert len(found) == 50
    assert not {2, 4} & set(found)


@pytest.mark.parametrize(
    "wrong", [{"temperature": -1.0}, {"top_k": -1}, {"top_p": 0.0}, {"min_p": 1.5}, {"count": 0}], ids=str
)
def test_wrong_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Sample.model_validate(wrong)


def sequences(sample: Sample, toy: Toy, rows: Sequence[int], *, length: int = 4) -> list[list[Hypothesis]]:
    return sample(toy.step, toy.start(rows), torch.zeros(len(rows)).long(), 2, lengths=length)


def test_sequences_are_as_frequent_as_they_are_probable() -> None:
    toy, count = Toy(3, seed=6), 20_000
    (found,) = sequences(Sample(count=count), toy, [5], length=3)
    wanted = {(*one.tokens, one.ended): one for one in everything(Beam(), toy, 5, Limits(2, 3))}
    observed = Counter((*one.tokens, one.ended) for one in found)
    assert sum(observed.values()) == count
    expected = [count * math.exp(one.log_probability) for one in wanted.values()]
    assert stats.chisquare([observed[name] for name in wanted], expected).pvalue > 1e-3
    for one in found[:: count // 50]:
        exact = wanted[(*one.tokens, one.ended)]
        assert one.log_probabilities == exact.log_probabilities
        assert one.score == one.log_probability == pytest.approx(exact.log_probability, abs=1e-12)


def test_draws_come_best_first_and_differ() -> None:
    (found,) = sequences(Sample(count=20), Toy(3, seed=6), [5])
    key = [(not one.ended, -one.score) for one in found]
    assert key == sorted(key)
    assert len({tuple(one.tokens) for one in found}) > 5


def test_probabilities_are_those_of_the_model_however_sharp() -> None:
    toy = Toy(3, seed=6)
    rows = list(range(30))
    cold = sequences(Sample(temperature=0.0), toy, rows)
    assert cold == Greedy()(toy.step, toy.start(rows), torch.zeros(30).long(), 2, lengths=4)
    assert cold == sequences(Sample(temperature=0.001), toy, rows)
    assert cold == sequences(Sample(top_k=1, temperature=3.0), toy, rows)


def test_a_row_draws_the_same_whatever_the_others_do() -> None:
    toy, sample = Toy(4, seed=6), Sample(count=2)
    whole = sequences(sample, toy, range(12))
    assert [sequences(sample, toy, [row])[0] for row in range(12)] == whole
    assert sequences(sample, toy, range(11, -1, -1)) == whole[::-1]


def test_only_allowed_sequences_are_drawn() -> None:
    toy = Toy(4, kind="sparse", seed=6)
    tree = PrefixTree([[], [0, 1], [0, 2, 2]], end=3)
    found = Sample(count=40)(toy.step, toy.start(range(9)), torch.zeros(9).long(), 3, lengths=4, tree=tree)
    assert {tuple(one.tokens) for draws in found for one in draws} == {(), (0, 1), (0, 2, 2)}
    assert any(len(draws) < 40 for draws in found)  # an allowed symbol can be impossible


def test_the_scores_of_a_step_are_left_alone() -> None:
    scores = torch.zeros(1, 3, dtype=torch.float64)
    list(Sample().stream(lambda _, state: (scores, state), torch.zeros(1), torch.zeros(1).long(), length=3, never=(1,)))
    assert scores.tolist() == [[0.0] * 3]
