"""Samples against the exact distribution; top-k, top-p and min-p against brute force."""

import math
from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats
from tests.decoding.tokens.reference import Limits, Toy, everything
from torch import Tensor

from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.prefix_tree import PrefixTree
from seqloom.decoding.tokens.sample import Sample
from seqloom.decoding.tokens.search import Hypothesis


def exact(
    scores: Sequence[float], *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0
) -> list[float]:
    """The most probable tokens first (ties: the lower id), until a limit is reached."""
    largest = max(scores)
    weights = [math.exp((score - largest) / temperature) for score in scores]
    probabilities = [weight / math.fsum(weights) for weight in weights]
    order = sorted(range(len(scores)), key=lambda token: (-probabilities[token], token))
    kept: list[int] = []
    for token in order:
        before = sum(probabilities[other] for other in kept)
        full = (top_k and len(kept) == top_k) or before >= top_p
        improbable = probabilities[token] < min_p * probabilities[order[0]]
        if kept and (full or improbable):
            break
        kept.append(token)
    share = math.fsum(probabilities[token] for token in kept)
    return [probabilities[token] / share if token in kept else 0.0 for token in range(len(scores))]


def draws(sample: Sample, scores: Sequence[float], count: int) -> list[int]:
    random = torch.Generator().manual_seed(sample.seed)
    rows = torch.tensor(scores, dtype=torch.float64).expand(count, -1)
    tokens: list[int] = sample.draw(rows, random).tolist()
    return tokens


@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 0.5}, {"temperature": 2.0}, {"top_k": 3}, {"top_p": 0.7}, {"min_p": 0.3}],
    ids=str,
)
def test_frequencies_are_those_of_the_distribution(options: dict[str, float]) -> None:
    scores = torch.tensor([0.1, 2.0, -1.0, 1.2, 0.4, -3.0]).log_softmax(dim=0).tolist()
    count = 20_000
    tokens = draws(Sample.model_validate(options), scores, count)
    exact_values = exact(scores, **options)  # type: ignore[arg-type]
    possible = [token for token, probability in enumerate(exact_values) if probability]
    observed = [tokens.count(token) for token in possible]
    assert sum(observed) == count
    expected = [count * exact_values[token] for token in possible]
    assert stats.chisquare(observed, expected).pvalue > 1e-3  # the seed is fixed: this holds or it does not


@given(
    scores=st.lists(st.floats(-8, 0), min_size=1, max_size=9),
    temperature=st.sampled_from([0.3, 1.0, 1.7]),
    top_k=st.integers(0, 10),
    top_p=st.sampled_from([0.011, 0.313, 0.717, 0.9713, 1.0]),
    min_p=st.sampled_from([0.0, 0.0573, 0.517, 1.0]),
)
def test_top_k_top_p_and_min_p_are_exact(
    scores: list[float], temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    scores = [round(score, 3) + 1e-6 * token for token, score in enumerate(scores)]  # no two are equal by chance
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    distribution = Sample.model_validate(options).distribution(torch.tensor([scores], dtype=torch.float64))[0]
    assert distribution.tolist() == pytest.approx(exact(scores, **options), abs=1e-12)  # type: ignore[arg-type]


def test_ties_go_to_the_lowest_token() -> None:
    distribution = Sample(top_k=2).distribution(torch.zeros(1, 4, dtype=torch.float64))
    assert distribution.tolist() == [[0.5, 0.5, 0, 0]]


def test_temperature_zero_is_greedy() -> None:
    scores = torch.randn(50, 9, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    random = torch.Generator()
    assert Sample(temperature=0.0).draw(scores, random).tolist() == scores.argmax(dim=1).tolist()
    cold = Sample(temperature=1e-310).draw(scores, random)  # as near as a float can come to it
    assert cold.tolist() == scores.argmax(dim=1).tolist()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    "row", [[0.0, math.nan], [-math.inf, -math.inf], [math.inf, 0.0], [math.inf, -math.inf]], ids=str
)
def test_an_empty_distribution_is_an_error(temperature: float, row: list[float]) -> None:
    scores = torch.tensor([[0.0, -1.0], row])
    with pytest.raises(
        ValueError, match="cannot sample: no token has a positive probability, or a log-probability is NaN"
    ):
        Sample(temperature=temperature).draw(scores, torch.Generator())


def test_impossible_tokens_are_never_sampled() -> None:
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


def test_the_seed_determines_the_samples() -> None:
    first, again, other = (walk(Sample(seed=seed), start=[0, 1, 2]) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_sampling_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    walk(Sample(), start=[0])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_stream_ends_where_all_rows_have_ended() -> None:
    steps = walk(Sample(temperature=0.0), start=[0, 2], end=4)
    assert steps == [[1, 3], [2, 4], [3, 4], [4, 4]]


def test_suppressed_tokens_are_never_sampled() -> None:
    stream = Sample().stream(chain, torch.zeros(1), torch.tensor([0]), length=50, suppress=(2, 4))
    sampled = [int(tokens) for tokens in stream]
    assert len(sampled) == 50
    assert not {2, 4} & set(sampled)


@pytest.mark.parametrize(
    "options", [{"temperature": -1.0}, {"top_k": -1}, {"top_p": 0.0}, {"min_p": 1.5}, {"count": 0}], ids=str
)
def test_invalid_settings_are_rejected(options: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Sample.model_validate(options)


def sequences(sample: Sample, toy: Toy, rows: Sequence[int], *, length: int = 4) -> list[list[Hypothesis]]:
    return sample(toy.step, toy.start(rows), torch.zeros(len(rows)).long(), 2, lengths=length)


def test_sequences_are_as_frequent_as_they_are_probable() -> None:
    toy, count = Toy(3, seed=6), 20_000
    (samples,) = sequences(Sample(count=count), toy, [5], length=3)
    exact_values = {(*sample.tokens, sample.ended): sample for sample in everything(Beam(), toy, 5, Limits(2, 3))}
    observed = Counter((*sample.tokens, sample.ended) for sample in samples)
    assert sum(observed.values()) == count
    expected = [count * math.exp(sample.log_probability) for sample in exact_values.values()]
    assert stats.chisquare([observed[name] for name in exact_values], expected).pvalue > 1e-3
    for sample in samples[:: count // 50]:
        exact = exact_values[(*sample.tokens, sample.ended)]
        assert sample.log_probabilities == exact.log_probabilities
        assert sample.score == sample.log_probability == pytest.approx(exact.log_probability, abs=1e-12)


def test_samples_are_sorted_and_differ() -> None:
    (samples,) = sequences(Sample(count=20), Toy(3, seed=6), [5])
    key = [(not sample.ended, -sample.score) for sample in samples]
    assert key == sorted(key)
    assert len({tuple(sample.tokens) for sample in samples}) > 5


def test_probabilities_are_those_of_the_model_however_sharp() -> None:
    toy = Toy(3, seed=6)
    rows = list(range(30))
    cold = sequences(Sample(temperature=0.0), toy, rows)
    assert cold == Greedy()(toy.step, toy.start(rows), torch.zeros(30).long(), 2, lengths=4)
    assert cold == sequences(Sample(temperature=0.001), toy, rows)
    assert cold == sequences(Sample(top_k=1, temperature=3.0), toy, rows)


def test_samples_of_a_row_do_not_depend_on_the_batch() -> None:
    toy, sample = Toy(4, seed=6), Sample(count=2)
    whole = sequences(sample, toy, range(12))
    assert [sequences(sample, toy, [row])[0] for row in range(12)] == whole
    assert sequences(sample, toy, range(11, -1, -1)) == whole[::-1]


def test_only_allowed_sequences_are_sampled() -> None:
    toy = Toy(4, kind="sparse", seed=6)
    tree = PrefixTree([[], [0, 1], [0, 2, 2]], end=3)
    rows = Sample(count=40)(toy.step, toy.start(range(9)), torch.zeros(9).long(), 3, lengths=4, tree=tree)
    assert {tuple(sample.tokens) for samples in rows for sample in samples} == {(), (0, 1), (0, 2, 2)}
    assert any(len(samples) < 40 for samples in rows)  # an allowed token can be impossible


def test_the_scores_of_the_step_are_not_modified() -> None:
    scores = torch.zeros(1, 3, dtype=torch.float64)
    list(
        Sample().stream(
            lambda _, state: (scores, state), torch.zeros(1), torch.zeros(1).long(), length=3, suppress=(1,)
        )
    )
    assert scores.tolist() == [[0.0] * 3]
