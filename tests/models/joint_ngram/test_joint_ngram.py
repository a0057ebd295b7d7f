"""Joint n-gram models against the sum over all sequences of units."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.joint_ngram.toy import END, PAIRS, SOURCES, padded

from seqloom.decoding.tokens.beam import Beam
from seqloom.layers.embedding import UNKNOWN
from seqloom.models.ensemble import Ensemble
from seqloom.models.generation import SUPPRESSED, generate, teacher_forced_scores
from seqloom.models.joint_ngram import joint_ngram, unit_ngram
from seqloom.models.joint_ngram.joint_ngram import JointNGram
from seqloom.models.joint_ngram.unit_ngram import OFFSET
from seqloom.models.ngram.ngram import NGram


def counted(order: int = 3) -> Any:
    model = JointNGram(lambda pair: pair, sources=8, targets=7, end=END, order=order, longest_chunk=2)
    model.count(PAIRS)
    return model


def memory_of(model: Any, sources: Sequence[Sequence[int]]) -> Any:
    return model.encoder(*padded(sources))


def paths(model: Any, source: Sequence[int]) -> Iterator[tuple[float, list[int], list[int]]]:
    """The joint probability of each sequence of units, its target, and the source position of each target token."""
    tensors = model.state_dict()
    units = tensors.pop("units").numpy()
    ngram = NGram.from_tensors(tensors)
    known = [at for at, token in enumerate(source) if token in units[:, 0]]
    for choice in itertools.product(*([*np.flatnonzero(units[:, 0] == source[at])] for at in known)):
        (scores,) = ngram.score([[unit + OFFSET for unit in choice]])
        spelled = [[token for token in units[unit, 1:].tolist() if token >= 0] for unit in choice]
        places = [at for at, chunk in zip(known, spelled, strict=True) for _ in chunk]
        yield math.exp(scores.sum()), [token for chunk in spelled for token in chunk], [*places, len(source)]


def by_target(model: Any, source: Sequence[int]) -> dict[tuple[int, ...], float]:
    """The probability of each target, given the source."""
    sums: dict[tuple[int, ...], float] = defaultdict(float)
    for probability, target, _ in paths(model, source):
        sums[tuple(target)] += probability
    total = sum(sums.values())
    return {target: probability / total for target, probability in sums.items()}


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_probabilities_of_all_targets(order: int, source: list[int]) -> None:
    model = counted(order)
    expected = by_target(model, source)
    assert (len(expected) > 1) == bool(source)
    targets = list(expected)
    memory = memory_of(model, [source] * len(targets))
    target = padded(targets)
    scored = teacher_forced_scores(model.decoder, memory, target, end=END)
    for each, (log_probs, _) in zip(targets, scored, strict=True):
        assert math.exp(sum(log_probs)) == pytest.approx(expected[each], rel=1e-4)  # float32


def test_next_token_sums_over_all_continuations() -> None:
    model, source = counted(), [5, 3, 4]
    expected = by_target(model, source)
    state = model.decoder.start(memory_of(model, [source]), 1)
    log_probs, _ = model.decoder(torch.tensor([[END, 5]]), state)
    sums = np.zeros((2, 7))
    for target, probability in expected.items():
        sums[0, (*target, END)[0]] += probability
        if target[:1] == (5,):
            sums[1, (*target, END)[1]] += probability
    np.testing.assert_allclose(log_probs[0].exp(), sums / sums.sum(axis=1, keepdims=True), atol=1e-6)


def test_a_wide_beam_finds_the_most_probable_target() -> None:
    model = counted()
    found = generate(
        model.decoder, memory_of(model, SOURCES), Beam(size=40, nbest=3, length_penalty="none"), end=END, lengths=9
    )
    for source, hypotheses in zip(SOURCES, found, strict=True):
        best = sorted(by_target(model, source).items(), key=lambda item: -item[1])[:3]
        assert [tuple(each.tokens) for each in hypotheses][:1] == [best[0][0]]
        values = [math.exp(each.log_probability) for each in hypotheses]
        assert values[: len(best)] == pytest.approx([probability for _, probability in best], rel=1e-4)


def test_alignment_is_the_posterior_of_positions() -> None:
    model, source = counted(), [5, 3, 4]
    inputs = padded([source])
    for target in map(list, by_target(model, source)):
        expected = np.zeros((len(target) + 1, len(source) + 1))
        for probability, found, places in paths(model, source):
            if found == target:
                expected[np.arange(len(places)), places] += probability
        posterior = model.align((inputs.values, inputs.mask), [*target, END])
        np.testing.assert_allclose(posterior, expected / expected.sum(axis=1, keepdims=True), rtol=1e-6, atol=1e-9)
    assert not model.align((inputs.values, inputs.mask), [6, 6, 6, 6, 6, 6, 6, END])[0].any()


def test_impossible_targets_have_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_ngram, "FLOOR", 1e-3)
    model = counted()
    target = padded([[6, 6, 6, 6]])
    ((log_probs, correct),) = teacher_forced_scores(model.decoder, memory_of(model, [[3]]), target, end=END)
    assert all(math.isfinite(value) for value in log_probs)
    assert log_probs[-1] == pytest.approx(math.log(1 / 7))  # after an impossible prefix, all tokens are as probable
    assert not any(correct)


def test_impossible_outputs_are_worse_the_longer_they_are() -> None:
    """Where a search may not end, or has to return more than the model has, it does not run on."""
    model = counted()
    possible = by_target(model, [3])
    options: dict[str, Any] = {"end": END, "lengths": 9, "suppress": SUPPRESSED}
    (nbest,) = generate(model.decoder, memory_of(model, [[3]]), Beam(size=9, nbest=9), **options)
    assert {tuple(each.tokens) for each in nbest[: len(possible)]} == set(possible)
    others = [len(each.tokens) for each in nbest[len(possible) :]]
    assert others
    assert others == sorted(others)
    (forced,) = generate(model.decoder, memory_of(model, [[3]]), Beam(size=9, min_length=4), **options)
    assert len(forced[0].tokens) == 4


def test_pairs_with_unknown_target_tokens_are_left_out() -> None:
    model = JointNGram(lambda pair: pair, sources=8, targets=7, end=END, order=3, longest_chunk=2)
    model.count([*PAIRS, ([6], [UNKNOWN]), ([3, 6], [3, UNKNOWN])])
    assert model.state_dict()["units"].equal(counted().state_dict()["units"])


def test_threads_share_a_model() -> None:
    model = counted()
    expected = [each[0].tokens for each in answers(model)]
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: answers(model), range(40)):
            assert [each[0].tokens for each in found] == expected


def answers(model: Any) -> Any:
    return generate(model.decoder, memory_of(model, SOURCES * 4), Beam(size=3), end=END, lengths=9)


def test_pruning_keeps_probabilities_that_add_up_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_ngram, "NODE_PRUNING", 0.2)
    monkeypatch.setattr(unit_ngram, "ARC_PRUNING", 0.05)
    model = counted()
    state = model.decoder.start(memory_of(model, SOURCES), len(SOURCES))
    tokens = torch.full((len(SOURCES), 1), END)
    for _ in range(3):
        log_probs, state = model.decoder(tokens, state)
        np.testing.assert_allclose(log_probs.exp().sum(dim=2), 1, rtol=1e-5)
        tokens = log_probs.argmax(dim=2)


def test_ensembles_average_probabilities() -> None:
    models = [counted(order=1), counted(order=4)]
    together: Any = Ensemble(models)
    inputs = padded(SOURCES)
    tokens = torch.full((len(SOURCES), 1), END)
    averaged, _ = together(tokens, together.start(together.encoder(*inputs), len(SOURCES)))
    single = [model.decoder(tokens, model.start(*inputs))[0].double().exp() for model in models]
    np.testing.assert_allclose(averaged.double().exp(), sum(single) / 2, atol=1e-6)


def test_damaged_weights_are_refused() -> None:
    model = counted()
    sound = model.state_dict()
    again = counted(order=3)
    again.load_state_dict(sound)
    assert again.state_dict().keys() == sound.keys()
    units = sound["units"]
    for broken, message in (
        ({}, "units: expected a table"),
        (sound | {"units": units.float()}, "units: expected a table"),
        (sound | {"units": units[1:].clone()}, "expected an n-gram model of order 3 over"),
        (sound | {"units": units.flip(0)}, "sorted by their source token"),
        (sound | {"log_probabilities.1": sound["log_probabilities.1"] - torch.inf}, "finite log-probabilities"),
        (sound | {"units": units + 7}, "units: expected tokens of the vocabularies"),
        (sound | {"units": torch.cat([units[:, :1], units[:, 1:] - 9], dim=1)}, "units: expected tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            again.load_state_dict(broken)
    with pytest.raises(ValueError, match="of order 2 over"):
        counted(order=2).load_state_dict(sound)


def test_before_it_is_estimated() -> None:
    model = JointNGram(lambda pair: pair, sources=8, targets=7, end=END, order=3, longest_chunk=2)
    assert model.state_dict() == {}
    with pytest.raises(ValueError, match="has not been estimated yet"):
        memory_of(model, [[3]])
