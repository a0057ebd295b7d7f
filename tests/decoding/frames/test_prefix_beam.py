"""Prefix beam search against the sum over every path, with and without lexicon and language model."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.frames.every_path import lexicon, word_log_probs

from seqloom.decoding.frames import lm_stream
from seqloom.decoding.frames.frame_search import Guide, Transcript
from seqloom.decoding.frames.language_models import NeuralLM, NGramLM
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.decoding.tokens.search import Step
from seqloom.kernels.ctc.naive import Tokens, sequence_log_probs
from seqloom.models.ngram.kneser_ney import estimate
from seqloom.models.ngram.ngram import NGram

FULL = PrefixBeam(size=2000, nbest=2000)
EXACT = 1e-10  # sums in double precision


def emit(seed: int, time: int, vocab_size: int, scale: float = 1.5, impossible: float = 0.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(time, vocab_size, generator=generator, dtype=torch.float64)
    logits[torch.rand(time, vocab_size, generator=generator) < impossible] = -math.inf
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
    seed: int, time: int, vocab_size: int, scale: float, impossible: float
) -> None:
    frames = emit(seed, time, vocab_size, scale, impossible)
    blank = seed % vocab_size
    truth = sequence_log_probs(frames.numpy(), blank)
    transcripts = search(FULL, frames, blank=blank)
    assert {tuple(transcript.tokens): transcript.acoustic for transcript in transcripts} == pytest.approx(
        truth, abs=EXACT, rel=1e-12
    )
    scores = [transcript.score for transcript in transcripts]
    assert scores == sorted(scores, reverse=True) == [transcript.acoustic for transcript in transcripts]
    assert all(transcript.language == 0 and not transcript.words and not transcript.spans for transcript in transcripts)


SPELLINGS: dict[str, tuple[list[tuple[int, Tokens]], int | None]] = {
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
    truth = word_log_probs(frames.numpy(), spelling, separator=separator)
    transcripts = search(FULL, frames, guide=Guide(lexicon(spelling, separator)))
    assert {tuple(transcript.words): transcript.acoustic for transcript in transcripts} == pytest.approx(
        truth, abs=EXACT
    )
    written: dict[Tokens, set[int]] = {way: {n for n, other in spelling if other == way} for _, way in spelling}
    for transcript in transcripts:
        assert len(transcript.spans) == len(transcript.words)
        starts = {start for start, _ in transcript.frames}
        for word, (start, end) in zip(transcript.words, transcript.spans, strict=True):
            inside = tuple(
                s for s, (a, b) in zip(transcript.tokens, transcript.frames, strict=True) if start <= a and b <= end
            )
            assert word in written[inside]
            assert start in starts


@LEXICA
@pytest.mark.parametrize("order", [1, 2, 3])
def test_words_with_an_n_gram_model(name: str, order: int) -> None:
    spelling, separator = SPELLINGS[name]
    frames, words = emit(order, 5, 4 if separator else 3), lexicon(spelling, separator)
    ngram = model(order, 6)
    ids = np.array([2, 0, -1, 1])[: len(words)]
    guide = Guide(words, NGramLM(ngram, vocabulary_ids=ids, unknown=3), weight=0.7, word_score=0.3, unk_score=-0.6)
    truth = word_log_probs(frames.numpy(), spelling, separator=separator)
    transcripts = {tuple(transcript.words): transcript for transcript in search(FULL, frames, guide=guide)}
    assert transcripts.keys() == truth.keys()
    for sequence, acoustic in truth.items():
        transcript, known = transcripts[sequence], np.where(ids < 0, 3, ids)
        language = float(ngram.score([[int(known[word]) for word in sequence]])[0].sum())
        bonus = 0.3 * len(sequence) - 0.6 * sum(ids[word] < 0 for word in sequence)
        assert transcript.acoustic == pytest.approx(acoustic, abs=EXACT)
        assert transcript.language == pytest.approx(language, abs=1e-6)  # tables are in single precision
        assert transcript.score == pytest.approx(acoustic + 0.7 * transcript.language + bonus, abs=EXACT)


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("weight", [0.0, 0.5, 2.0])
def test_tokens_with_an_n_gram_model(order: int, weight: float) -> None:
    frames, ngram = emit(order, 6, 4), model(order, 5)
    ids = [-1, 1, 0, 2]
    guide = Guide(None, NGramLM(ngram, vocabulary_ids=ids), weight=weight, word_score=0.4)
    truth = sequence_log_probs(frames.numpy())
    transcripts = {tuple(transcript.tokens): transcript for transcript in search(FULL, frames, guide=guide)}
    assert transcripts.keys() == truth.keys()
    for sequence, acoustic in truth.items():
        language = float(ngram.score([[ids[token] for token in sequence]])[0].sum())
        assert transcripts[sequence].acoustic == pytest.approx(acoustic, abs=EXACT)
        assert transcripts[sequence].language == pytest.approx(language, abs=1e-6)
        assert transcripts[sequence].score == pytest.approx(
            acoustic + weight * transcripts[sequence].language + 0.4 * len(sequence), abs=EXACT
        )


class Bigrams(NamedTuple):
    """The state of a toy decoder: its last token, and how many it has read."""

    last: torch.Tensor
    read: torch.Tensor


def neural(vocabulary: int, end: int, seed: int = 0) -> tuple[Step, Callable[[Sequence[int]], float]]:
    """A step, and the log-probability of a whole text by the same rule."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(5, vocabulary, vocabulary, generator=generator, dtype=torch.float64).log_softmax(dim=-1)

    def step(tokens: torch.Tensor, state: Bigrams) -> tuple[torch.Tensor, Bigrams]:
        return table[(state.last + state.read) % 5, tokens], Bigrams(tokens, state.read + 1)

    def score(text: Sequence[int]) -> float:
        last, total = 0, 0.0
        for count, (token, following) in enumerate(pairwise([START, *text, end])):
            total, last = total + float(table[(last + count) % 5, token, following]), token
        return total

    return step, score


START = 1
EMPTY = Bigrams(torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64))


def test_tokens_with_a_decoder() -> None:
    frames, ids, end = emit(0, 6, 4), [-1, 3, 2, 0], 4
    step, score = neural(5, end)
    language = NeuralLM(step, EMPTY, start=START, end=end, vocabulary_ids=ids)
    transcripts = search(FULL, frames, guide=Guide(None, language, weight=0.6, word_score=-0.1))
    truth = sequence_log_probs(frames.numpy())
    assert {tuple(transcript.tokens) for transcript in transcripts} == truth.keys()
    for transcript in transcripts:
        assert transcript.acoustic == pytest.approx(truth[tuple(transcript.tokens)], abs=EXACT)
        assert transcript.language == pytest.approx(score([ids[token] for token in transcript.tokens]), abs=EXACT)
        assert transcript.score == pytest.approx(
            transcript.acoustic + 0.6 * transcript.language - 0.1 * len(transcript.tokens), abs=EXACT
        )


@LEXICA
def test_words_with_a_decoder(name: str) -> None:
    spelling, separator = SPELLINGS[name]
    frames, words = emit(0, 5, 4 if separator else 3), lexicon(spelling, separator)
    ids = np.array([2, 0, -1, 4])[: len(words)]
    step, score = neural(6, 5)
    language = NeuralLM(step, EMPTY, start=START, end=5, vocabulary_ids=ids, unknown=3)
    transcripts = search(FULL, frames, guide=Guide(words, language, weight=0.6, unk_score=0.2))
    truth = word_log_probs(frames.numpy(), spelling, separator=separator)
    assert {tuple(transcript.words) for transcript in transcripts} == truth.keys()
    for transcript in transcripts:
        text, unknown = [int(ids[word]) for word in transcript.words], sum(ids[word] < 0 for word in transcript.words)
        assert transcript.acoustic == pytest.approx(truth[tuple(transcript.words)], abs=EXACT)
        assert transcript.language == pytest.approx(score([3 if number < 0 else number for number in text]), abs=EXACT)
        assert transcript.score == pytest.approx(
            transcript.acoustic + 0.6 * transcript.language + 0.2 * unknown, abs=EXACT
        )


@LEXICA
@pytest.mark.parametrize("kind", ["n-gram", "decoder"])
def test_rescoring_adds_the_language_model_to_the_n_best(name: str, kind: str) -> None:
    """Each text of the search without a language model, its score added up by hand; words without a name are tokens."""
    spelling, separator = SPELLINGS[name]
    frames, ngram, (step, neural_score) = emit(0, 6, 4 if separator else 3), model(2, 6), neural(6, 5)
    for words in (None, lexicon(spelling, separator)):
        ids = np.array([2, 0, -1, 1])[: frames.shape[1] if words is None else len(words)]
        unknown = 3
        lm: NGramLM | NeuralLM = NGramLM(ngram, vocabulary_ids=ids, unknown=unknown)
        if kind == "decoder":
            lm = NeuralLM(step, EMPTY, start=START, end=5, vocabulary_ids=ids, unknown=unknown)
        expected = {}
        for found in search(PrefixBeam(size=7, nbest=7), frames, guide=Guide(words)):
            text = tuple(found.tokens if words is None else found.words)
            known = [unknown if ids[each] < 0 else int(ids[each]) for each in text]
            language = float(ngram.score([known])[0].sum()) if kind == "n-gram" else neural_score(known)
            bonus = 0.4 * len(text) - 0.3 * sum(ids[each] < 0 for each in text)
            expected[text] = (found.acoustic + 1.7 * language + bonus, found.acoustic, language)
        guide = Guide(words, lm, weight=1.7, word_score=0.4, unk_score=-0.3, rescore=True)
        for nbest in (1, 3, 7):
            rescored = search(PrefixBeam(size=7, nbest=nbest), frames, guide=guide)
            best = sorted(expected, key=lambda text: -expected[text][0])[:nbest]
            assert [tuple(each.tokens if words is None else each.words) for each in rescored] == best
            for transcript, text in zip(rescored, best, strict=True):
                parts = transcript.score, transcript.acoustic, transcript.language
                assert parts == pytest.approx(expected[text], abs=EXACT)


def test_rescoring_drops_what_the_language_model_makes_impossible() -> None:
    frames, lm = emit(0, 6, 4), NGramLM(model(2, 6), vocabulary_ids=[-1, 1, -1, 2])
    rescored = search(FULL, frames, guide=Guide(None, lm, rescore=True))
    assert {tuple(transcript.tokens) for transcript in rescored} == {
        text for text in sequence_log_probs(frames.numpy()) if 2 not in text
    }


def test_a_stream_cannot_rescore() -> None:
    guide = Guide(None, NGramLM(model(2, 6), vocabulary_ids=[3, 0, 1, 2]), rescore=True)
    with pytest.raises(ValueError, match="a stream cannot reorder its transcripts"):
        PrefixBeam().stream(vocab_size=4, guide=guide)


@cache
def guides() -> dict[str, Guide]:
    """One guide of each kind, for frames of four tokens."""
    spelling, separator = SPELLINGS["separator"]
    words, (step, _), ngram = lexicon(spelling, separator), neural(6, 5), model(3, 6)
    four, decoder = [3, 0, 1, 2], {"start": START, "end": 5}
    return {
        "none": Guide(),
        "tokens": Guide(None, NGramLM(ngram, vocabulary_ids=four), weight=0.5, word_score=0.5),
        "tokens-decoder": Guide(
            None, NeuralLM(step, EMPTY, vocabulary_ids=four, **decoder), weight=0.5, word_score=0.5
        ),
        "words": Guide(words),
        "phones": Guide(lexicon([*SPELLINGS["variants"][0], (3, (3,))], None)),
        "words-n-gram": Guide(words, NGramLM(ngram, vocabulary_ids=four), weight=0.5, word_score=0.5),
        "words-decoder": Guide(
            words, NeuralLM(step, EMPTY, vocabulary_ids=four, **decoder), weight=0.5, word_score=0.5
        ),
        "rescored": Guide(words, NGramLM(ngram, vocabulary_ids=four), weight=0.5, word_score=0.5, rescore=True),
    }


GUIDES = pytest.mark.parametrize("name", guides())


@GUIDES
@pytest.mark.parametrize("best", [1, 3])
def test_compacting_the_tree_changes_nothing(name: str, best: int, monkeypatch: pytest.MonkeyPatch) -> None:
    beam, frames, guide = PrefixBeam(size=5, nbest=best), emit(7, 150, 4), guides()[name]
    expected = search(beam, frames, guide=guide)
    monkeypatch.setattr(lm_stream, "MIN_NODES", 8)
    assert search(beam, frames, guide=guide) == expected
    assert len(expected) == best


@GUIDES
def test_no_beam_exceeds_the_sum_over_all_paths(name: str) -> None:
    frames, guide = emit(3, 6, 4), guides()[name]
    truth = {
        (*transcript.words, -1, *([] if transcript.words else transcript.tokens)): transcript
        for transcript in search(FULL, frames, guide=guide)
    }
    best = max(transcript.score for transcript in truth.values())
    for size in (1, 2, 3, 5, 8, 20, 300):
        transcripts = search(PrefixBeam(size=size), frames, guide=guide)
        for transcript in transcripts:
            exact = truth[(*transcript.words, -1, *([] if transcript.words else transcript.tokens))]
            assert transcript.acoustic <= exact.acoustic + EXACT
            assert transcript.score <= best + EXACT
            assert transcript.language == pytest.approx(exact.language, abs=EXACT)
    assert transcripts[0].score == pytest.approx(best, abs=1e-6)


def test_tokens_below_the_threshold_are_skipped() -> None:
    frames = emit(1, 6, 4)
    low = (frames < math.log(0.2)) & (frames < frames.max(dim=1, keepdim=True).values)
    low[:, 0] = False
    transcripts = search(PrefixBeam(size=2000, nbest=2000, token_threshold=0.2), frames)
    truth = sequence_log_probs(frames.masked_fill(low, -math.inf).numpy())
    assert {tuple(transcript.tokens): transcript.acoustic for transcript in transcripts} == pytest.approx(
        truth, abs=EXACT
    )


@GUIDES
@pytest.mark.parametrize("size", [2, 6, 40])
def test_pruning_thresholds(name: str, size: int) -> None:
    frames, guide = emit(2, 12, 4), guides()[name]
    wide = search(PrefixBeam(size=size, nbest=50), frames, guide=guide)
    close = search(PrefixBeam(size=size, nbest=50, threshold=3.0), frames, guide=guide)
    assert len(close) <= len(wide)
    assert search(PrefixBeam(size=size, nbest=50, threshold=1e6), frames, guide=guide) == wide
    assert search(PrefixBeam(size=size, nbest=50, per_node=1000), frames, guide=guide) == wide


def test_per_node_limits_the_extensions() -> None:
    frames = torch.tensor([[0.1, 0.4, 0.3, 0.2]]).log()
    for limit in (1, 2, 3):
        transcripts = search(PrefixBeam(per_node=limit, nbest=9), frames)
        assert sorted(transcript.tokens for transcript in transcripts) == [
            [],
            *([token] for token in range(1, limit + 1)),
        ]


def test_threads_do_not_change_the_result() -> None:
    frames = torch.stack([emit(seed, 40, 4) for seed in range(5)])
    lengths, guide, threads = torch.tensor([40, 0, 17, 40, 1]), guides()["words-n-gram"], torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = PrefixBeam(nbest=2)(frames, lengths, guide=guide)
        torch.set_num_threads(3)
        assert PrefixBeam(nbest=2)(frames, lengths, guide=guide) == alone
    finally:
        torch.set_num_threads(threads)


def test_invalid_guides_are_rejected() -> None:
    frames, words = emit(0, 3, 4), lexicon([(0, (1, 5))], None)
    for guide, message in (
        (Guide(words), "a spelling of the lexicon contains token 5, expected token ids below 4"),
        (Guide(lexicon([(0, (1, 0))], None)), r"a spelling of the lexicon contains the blank \(0\)"),
        (Guide(weight=-1.0), "weight of the language model is -1.0, expected at least 0"),
        (Guide(word_score=math.inf), "word_score is inf"),
        (
            Guide(None, NGramLM(model(2, 5), vocabulary_ids=[0])),
            r"has shape \(1,\), expected \(4,\)",
        ),
        (Guide(None, NGramLM(model(2, 5), vocabulary_ids=[0, 1, 2, 9])), "contains 9, expected ids below 5"),
    ):
        with pytest.raises(ValueError, match=message):
            search(PrefixBeam(), frames, guide=guide)
