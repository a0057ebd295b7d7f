"""Prefix beam search against the sum over every path, with and without lexicon and language model."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.every_path import Symbols, lexicon, spelt, worded

from seqloom.decoding.frames import Guide, Transcript
from seqloom.decoding.language import NGramLanguage
from seqloom.decoding.prefix_beam import PrefixBeam
from seqloom.models.kneser_ney import estimate
from seqloom.models.ngram import NGram

FULL = PrefixBeam(size=2000, best=2000)
EXACT = 1e-10  # sums in double precision


def emit(seed: int, time: int, symbols: int, scale: float = 1.5, impossible: float = 0.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(time, symbols, generator=generator, dtype=torch.float64)
    logits[torch.rand(time, symbols, generator=generator) < impossible] = -math.inf
    return (logits - logits.logsumexp(dim=-1, keepdim=True)).nan_to_num(nan=-math.inf, neginf=-math.inf)


def search(beam: PrefixBeam, frames: torch.Tensor, **options: Any) -> list[Transcript]:
    return beam(frames[None], torch.tensor([len(frames)]), **options)[0]


def model(order: int, vocabulary: int, seed: int = 0) -> NGram:  # of words 0 … V - 3; the last two are start and end
    draw = np.random.default_rng(seed)
    texts = [draw.integers(0, vocabulary - 2, draw.integers(1, 6)).tolist() for _ in range(8)]
    return estimate(texts, order=order, start=vocabulary - 2, end=vocabulary - 1, vocabulary=vocabulary)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 999),
    st.integers(0, 5),
    st.integers(2, 4),
    st.sampled_from([0.1, 1.5, 300.0]),
    st.sampled_from([0, 0.3]),
)
def test_full_width_is_the_sum_over_all_paths(
    seed: int, time: int, symbols: int, scale: float, impossible: float
) -> None:
    frames = emit(seed, time, symbols, scale, impossible)
    blank = seed % symbols
    truth = spelt(frames.numpy(), blank)
    found = search(FULL, frames, blank=blank)
    assert {tuple(one.symbols): one.acoustic for one in found} == pytest.approx(truth, abs=EXACT, rel=1e-12)
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True) == [one.acoustic for one in found]
    assert all(one.language == 0 and not one.words and not one.spans for one in found)


SPELLINGS: dict[str, tuple[list[tuple[int, Symbols]], int | None]] = {
    "phones": ([(0, (1,)), (1, (1, 2)), (2, (2, 2)), (3, (2,))], None),
    "variants": ([(0, (1, 2)), (0, (2,)), (1, (1,)), (1, (2, 1)), (2, (1, 2))], None),
    "ambiguous": ([(0, (1,)), (0, (1, 2)), (1, (2, 1)), (1, (1,))], None),
    "separator": ([(0, (1,)), (1, (1, 1)), (2, (1, 3)), (3, (3,))], 2),
    "homographs": ([(0, (1,)), (1, (1,)), (1, (3, 1)), (2, (3,))], 2),
}
LEXICA = pytest.mark.parametrize("name", SPELLINGS)


@LEXICA
@pytest.mark.parametrize("seed", range(3))
def test_words_are_the_sum_over_all_spellings(name: str, seed: int) -> None:
    spelling, separator = SPELLINGS[name]
    frames = emit(seed, 5, 4 if separator else 3, impossible=0.1 * seed)
    truth = worded(frames.numpy(), spelling, separator=separator)
    found = search(FULL, frames, guide=Guide(lexicon(spelling, separator)))
    assert {tuple(one.words): one.acoustic for one in found} == pytest.approx(truth, abs=EXACT)
    written: dict[Symbols, set[int]] = {way: {n for n, other in spelling if other == way} for _, way in spelling}
    for one in found:
        assert len(one.spans) == len(one.words)
        starts = {start for start, _ in one.frames}
        for word, (start, end) in zip(one.words, one.spans, strict=True):
            inside = tuple(s for s, (a, b) in zip(one.symbols, one.frames, strict=True) if start <= a and b <= end)
            assert word in written[inside]
            assert start in starts


@LEXICA
@pytest.mark.parametrize("order", [1, 2, 3])
def test_words_with_an_n_gram_model(name: str, order: int) -> None:
    spelling, separator = SPELLINGS[name]
    frames, words = emit(order, 5, 4 if separator else 3), lexicon(spelling, separator)
    ngram = model(order, 6)
    numbers = np.array([2, 0, -1, 1])[: len(words)]
    guide = Guide(words, NGramLanguage(ngram, numbers=numbers, unknown=3), weight=0.7, bonus=0.3, unknown=-0.6)
    truth = worded(frames.numpy(), spelling, separator=separator)
    found = {tuple(one.words): one for one in search(FULL, frames, guide=guide)}
    assert found.keys() == truth.keys()
    for said, acoustic in truth.items():
        one, known = found[said], np.where(numbers < 0, 3, numbers)
        language = float(ngram.score([[int(known[word]) for word in said]])[0].sum())
        bonus = 0.3 * len(said) - 0.6 * sum(numbers[word] < 0 for word in said)
        assert one.acoustic == pytest.approx(acoustic, abs=EXACT)
        assert one.language == pytest.approx(language, abs=1e-6)  # tables are in single precision
        assert one.score == pytest.approx(acoustic + 0.7 * one.language + bonus, abs=EXACT)


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("weight", [0.0, 0.5, 2.0])
def test_symbols_with_an_n_gram_model(order: int, weight: float) -> None:
    frames, ngram = emit(order, 6, 4), model(order, 5)
    numbers = [-1, 1, 0, 2]
    guide = Guide(None, NGramLanguage(ngram, numbers=numbers), weight=weight, bonus=0.4)
    truth = spelt(frames.numpy())
    found = {tuple(one.symbols): one for one in search(FULL, frames, guide=guide)}
    assert found.keys() == truth.keys()
    for said, acoustic in truth.items():
        language = float(ngram.score([[numbers[symbol] for symbol in said]])[0].sum())
        assert found[said].acoustic == pytest.approx(acoustic, abs=EXACT)
        assert found[said].language == pytest.approx(language, abs=1e-6)
        assert found[said].score == pytest.approx(acoustic + weight * found[said].language + 0.4 * len(said), abs=EXACT)
