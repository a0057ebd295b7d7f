"""The CTC benchmark with tiny inputs: the simulation, the cases that are compared, and their scores."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from itertools import groupby, product
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from benchmarks import ctc, simulated_speech
from benchmarks.measure import Timing
from benchmarks.peers import ctc_decoders
from benchmarks.peers.ctc_decoders import Decoded, Decoder
from benchmarks.simulated_speech import (
    ALPHABET,
    BLANK,
    FLAT,
    PEAKY,
    SEPARATOR,
    AcousticModel,
    SentenceGenerator,
    Utterances,
    make_words,
    simulate,
)
from seqloom.models.ngram.arpa import write_arpa

KEYS = {"case", "unit", "threads", "ours", "peer", "peer_name", "ratio", "goal", "limit", "ours_best", "peer_best"}
CERTAIN = AcousticModel("certain", 40.0, 1.0)


def spelled(lexicon: list[str], sentence: list[int]) -> list[int]:
    return [symbol for word in sentence for symbol in [*simulated_speech.spell(lexicon[word]), SEPARATOR]]


def best_path(logits: NDArray[np.float32]) -> list[int]:
    return [symbol for symbol, _ in groupby(logits.argmax(axis=1).tolist()) if symbol != BLANK]


def test_words_are_distinct_and_spelled_with_the_alphabet() -> None:
    words = make_words(3000)
    assert len(set(words)) == 3000
    assert words[:100] == make_words(100)
    assert set("".join(words)) <= set(ALPHABET[2:])
    assert len(ALPHABET) == 29


def test_confident_logits_spell_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_speech, "CONFUSION_PROBABILITY", 0.0)
    lexicon = make_words(50)
    utterances = simulate(SentenceGenerator(50), lexicon, model=CERTAIN, count=20, frames=150)
    assert utterances.logits.shape == (20, 150, 29)
    assert utterances.logits.dtype == np.float32
    for sentence, logits in zip(utterances.words, utterances.logits, strict=True):
        assert best_path(logits) == spelled(lexicon, sentence)
        assert 10 < len(best_path(logits)) <= 30


def test_simulation_is_deterministic_and_flat_is_less_confident_than_peaky() -> None:
    lexicon = make_words(50)
    peaky, again, flat = (
        simulate(SentenceGenerator(50), lexicon, model=model, count=4, frames=100) for model in (PEAKY, PEAKY, FLAT)
    )
    assert np.array_equal(peaky.logits, again.logits)
    assert peaky.words == again.words == flat.words
    highest = [np.exp(ctc_decoders.log_softmax(each.logits)).max(axis=2).mean() for each in (peaky, flat)]
    assert highest[0] > 0.9 > 0.7 > highest[1]


def test_an_ngram_learns_the_simulated_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctc, "SMALL_LEXICON", 200)
    monkeypatch.setattr(ctc, "SENTENCES", 1000)
    ctc.ngram.cache_clear()
    try:
        model = ctc.ngram()
    finally:
        ctc.ngram.cache_clear()
    sentences = SentenceGenerator(200)
    sentences.corpus(1000)
    new = sentences.corpus(50)
    shuffled = [np.random.default_rng(1).permutation(sentence).tolist() for sentence in new]
    real, wrong = (np.concatenate(model.score(texts)).mean() for texts in (new, shuffled))
    assert real > wrong + 0.3


@pytest.mark.parametrize("token_threshold", [0.0, 0.001])
def test_fast_ctc_decode_finds_the_best_path(token_threshold: float) -> None:
    if find_spec("fast_ctc_decode") is None:
        pytest.skip("fast_ctc_decode is not installed")
    lexicon = make_words(50)
    utterances = simulate(SentenceGenerator(50), lexicon, model=CERTAIN, count=3, frames=100)
    (search,) = ctc_decoders.fast_ctc_decode(size=8, token_threshold=token_threshold).values()
    assert [decoded.tokens for decoded in search(utterances.logits)()] == [
        best_path(logits) for logits in utterances.logits
    ]


@pytest.mark.parametrize("kind", ["no lexicon", "lexicon", "ngram"])
def test_flashlight_finds_the_best_path(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("flashlight") is None:
        pytest.skip("flashlight-text is not installed")
    monkeypatch.setattr(simulated_speech, "CONFUSION_PROBABILITY", 0.0)
    monkeypatch.setattr(ctc, "SMALL_LEXICON", 50)
    monkeypatch.setattr(ctc, "SENTENCES", 200)
    lexicon = make_words(50)
    utterances = simulate(SentenceGenerator(50), lexicon, model=CERTAIN, count=3, frames=100)
    arpa = None
    if kind == "ngram":
        arpa = tmp_path / "language.arpa"
        ctc.ngram.cache_clear()
        write_arpa(ctc.ngram(), [*lexicon, "<unk>", "<s>", "</s>"], arpa)
        ctc.ngram.cache_clear()
    words = () if kind == "no lexicon" else lexicon
    (search,) = ctc_decoders.flashlight(size=8, lexicon=words, arpa=arpa, weight=0.5).values()
    decoded = search(utterances.logits)()
    assert [hypothesis.tokens for hypothesis in decoded] == [best_path(logits) for logits in utterances.logits]
    assert [each.words for each in decoded] == ([[]] * 3 if kind == "no lexicon" else utterances.words)


def test_a_missing_library_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert ctc_decoders.missing("no_such_module", "a peer")
    assert capsys.readouterr().err == "Not compared with a peer: No module named 'no_such_module'\n"


@pytest.mark.exhaustive
def test_quality() -> None:
    logits = torch.tensor([[[0.0, 2.0, 1.0], [2.0, 0.0, 0.0]]])
    utterances = Utterances([[4, 5]], logits.numpy())
    good, bad, none = Decoded([1], [4, 5]), Decoded([2], [4]), Decoded([], [])
    quality = partial(ctc.quality, "case", utterances, peer_name="peer")
    result = quality(ours=[good], theirs=[bad], words=False)
    probabilities = logits[0].double().softmax(dim=1)
    for score, symbol in ((result.ours, 1), (result.peer, 2)):
        paths = [(symbol, symbol), (symbol, 0), (0, symbol)]
        total = sum(probabilities[0, first] * probabilities[1, second] for first, second in paths)
        assert score == pytest.approx(-np.log(float(total)), abs=5e-4)
    assert result.ratio > 1
    assert quality(ours=[bad], theirs=[good], words=False).ratio < 1
    errors = quality(ours=[bad], theirs=[none], words=True)
    assert (errors.ours, errors.peer, errors.ratio) == (1, 2, 1.5)
    assert quality(ours=[good], theirs=[good], words=True).ratio == 1


def interleave_once(calls: Mapping[str, Callable[[], object]], **_: int) -> dict[str, Timing]:
    """Without a clock: each call is slower than the one before it."""
    for call in calls.values():
        call()
    return {name: Timing(2.0 + index, 1.0 + index) for index, name in enumerate(calls)}


@pytest.mark.exhaustive
def test_every_case_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(**_: object) -> dict[str, Decoder]:
        return {"a peer": lambda logits: lambda: [Decoded(best_path(row), []) for row in logits]}

    shapes = {80: (1, 2), 90: (1, 2)}
    monkeypatch.setattr(ctc, "LOSSES", ((12, 2, 5, 3),))
    monkeypatch.setattr(ctc, "SHAPES", shapes)
    for name, value in {"SMALL_LEXICON": 30, "LARGE_LEXICON": 60, "SENTENCES": 50}.items():
        monkeypatch.setattr(ctc, name, value)
    monkeypatch.setattr(ctc, "interleave", interleave_once)
    for name in ("fast_ctc_decode", "flashlight"):
        monkeypatch.setattr(ctc_decoders, name, greedy)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    cached = (ctc.vocabulary, ctc.ngram, ctc.guide)
    for function in cached:
        function.cache_clear()
    try:
        results = list(ctc.measure(quick=False))
    finally:
        for function in cached:
            function.cache_clear()
    assert all(set(asdict(result)) == KEYS for result in results)
    json.dumps([asdict(result) for result in results])
    rates = [result for result in results if result.unit == "utterances/s"]
    assert len(rates) == len(list(product(range(6), ctc.MODELS, shapes)))
    assert all(result.ratio == 1.5 and result.goal == 5 and result.peer == 1 / 3 for result in rates)
    scored = [result for result in results if result.case.endswith(("word errors", "negative log-likelihood"))]
    assert len(scored) == len(rates)
    assert [result.threads for result in results if result.case.startswith("loss")] == [1, 2]
    assert [result.goal for result in results if result.peer_name == "ours, 1 thread"] == [1.8, 1.8]
