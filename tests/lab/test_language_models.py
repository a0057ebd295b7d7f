"""Language models: the verdict on made-up bits, the cases of n-grams, and counts that are checked by hand."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

from seqloom.lab.language_models import ELMAN, LSTM, NGRAM, WINDOW, LanguageModels, Score, best_scores, ngram_cases
from seqloom.lab.texts import load_text
from seqloom.models.ngram.ngram import MISSING


def scores(model: str, bits: tuple[float, ...], *, context: int | None = None) -> list[Score]:
    return [Score(model, context, seed, value, 10, 0, 0) for seed, value in enumerate(bits)]


def made_up(*, lstm: tuple[float, ...], unseen: int = 80) -> list[Score]:
    counted = [Score(NGRAM, 1, None, 4.0, 10, 100, 5), Score(NGRAM, 4, None, 3.0, 10, 100, unseen)]
    windows = scores(WINDOW, (2.9, 2.8, 2.85), context=2) + scores(WINDOW, (3.5, 3.6, 3.5), context=4)
    return counted + windows + scores(ELMAN, (2.5, 2.4, 2.45)) + scores(LSTM, lstm)


@pytest.mark.parametrize(
    ("lstm", "unseen", "status"),
    [
        ((2.0, 1.9, 1.95), 80, "holds"),
        ((2.0, 1.9, 1.95), 20, "does not hold here"),  # not sparse
        ((2.8, 2.7, 2.75), 80, "does not hold here"),  # worse than the Elman network
        ((1.9, 2.9, 2.4), 80, "not decided"),
        ((2.0,), 80, "not decided"),
    ],
)
def test_the_verdict_follows_the_rule(lstm: tuple[float, ...], unseen: int, status: str) -> None:
    assert LanguageModels().verdict(made_up(lstm=lstm, unseen=unseen)).status == status


def test_the_best_context_counts() -> None:
    rows = made_up(lstm=(2.0,))
    assert best_scores(rows, NGRAM) == (4, {None: 3.0})
    assert best_scores(rows, WINDOW) == (2, {0: 2.9, 1: 2.8, 2: 2.85})


def test_n_grams_see_what_a_network_sees() -> None:
    contexts, words = ngram_cases(torch.tensor([[1, 2, 3], [4, 5, 6]]), 3)
    assert words.tolist() == [2, 3, 5, 6]
    assert contexts.tolist() == [[MISSING, 1], [1, 2], [MISSING, 4], [4, 5]]
    assert ngram_cases(torch.tensor([[1, 2, 3]]), 1)[0].shape == (2, 0)


def test_counted_bigrams_agree_with_relative_frequencies() -> None:
    """The training text has 300,000 characters, so that smoothing hardly changes the bits of bigrams."""
    (score,) = LanguageModels()._count(2)
    text = load_text("prose")
    pairs = Counter(zip(text.train[:-1].tolist(), text.train[1:].tolist(), strict=True))
    firsts = Counter(text.train[:-1].tolist())
    batch = text.dev_batch()
    before, after = batch.inputs.values.argmax(-1).flatten().tolist(), batch.target.flatten().tolist()
    known = [(a, b) for a, b in zip(before, after, strict=True) if (a, b) in pairs]
    assert score.unseen == len(before) - len(known)
    bits = [-math.log2(pairs[a, b] / firsts[a]) for a, b in known]
    assert score.bits == pytest.approx(np.mean(bits), abs=0.05)


def test_a_window_sees_no_further_than_its_size() -> None:
    torch.manual_seed(1)
    network = LanguageModels(hidden_size=8).build(WINDOW, 3, 5)
    inputs = load_text("prose").dev_batch(windows=1, length=10).inputs
    x = inputs.values[..., :5].clone().requires_grad_()
    network(inputs._replace(values=x), inputs.mask)[9].sum().backward()
    assert x.grad is not None
    assert (x.grad[0].norm(dim=-1) > 0).tolist() == [False] * 7 + [True] * 3
