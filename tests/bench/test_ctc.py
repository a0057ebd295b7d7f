"""The benchmark of CTC on so little that it takes a moment: what is simulated, compared, and how it is judged."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.util import find_spec
from itertools import groupby, product
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from seqloom.bench import ctc, emissions, peers_ctc
from seqloom.bench.emissions import ALPHABET, BLANK, FLAT, PEAKY, SEPARATOR, Kind, Speaker, Utterances, utter, words
from seqloom.bench.measure import Timing
from seqloom.bench.peers_ctc import Found, Searcher
from seqloom.models.ngram.arpa import write_arpa

KEYS = {"case", "unit", "threads", "ours", "peer", "peer_name", "ratio", "goal", "limit", "ours_best", "peer_best"}
CERTAIN = Kind("certain", 40.0, 1.0)


def said(lexicon: list[str], sentence: list[int]) -> list[int]:
    return [symbol for word in sentence for symbol in [*emissions.spell(lexicon[word]), SEPARATOR]]


def read(logits: NDArray[np.float32]) -> list[int]:
    return [symbol for symbol, _ in groupby(logits.argmax(axis=1).tolist()) if symbol != BLANK]


def test_words_are_different_and_spelt_with_the_alphabet() -> None:
    found = words(3000)
    assert len(set(found)) == 3000
    assert found[:100] == words(100)
    assert set("".join(found)) <= set(ALPHABET[2:])
    assert len(ALPHABET) == 29


def test_a_sure_recogniser_hears_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emissions, "DOUBT", 0.0)
    lexicon = words(50)
    heard = utter(Speaker(50), lexicon, CERTAIN, count=20, frames=150)
    assert heard.logits.shape == (20, 150, 29)
    assert heard.logits.dtype == np.float32
    for sentence, logits in zip(heard.words, heard.logits, strict=True):
        assert read(logits) == said(lexicon, sentence)
        assert 10 < len(read(logits)) <= 30


def test_simulation_is_the_same_every_time_and_flat_is_less_sure_than_peaky() -> None:
    lexicon = words(50)
    peaky, again, flat = (utter(Speaker(50), lexicon, kind, count=4, frames=100) for kind in (PEAKY, PEAKY, FLAT))
    assert np.array_equal(peaky.logits, again.logits)
    assert peaky.words == again.words == flat.words
    highest = [np.exp(peers_ctc.log_softmax(each.logits)).max(axis=2).mean() for each in (peaky, flat)]
    assert highest[0] > 0.9 > 0.7 > highest[1]


def test_speakers_have_habits_that_n_grams_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctc, "FEW", 200)
    monkeypatch.setattr(ctc, "SENTENCES", 1000)
    ctc.language.cache_clear()
    try:
        model = ctc.language()
    finally:
        ctc.language.cache_clear()
    speaker = Speaker(200)
    speaker.corpus(1000)
    new = speaker.corpus(50)
    mixed = [np.random.default_rng(1).permutation(sentence).tolist() for sentence in new]
    real, wrong = (np.concatenate(model.score(texts)).mean() for texts in (new, mixed))
    assert real > wrong + 0.3


@pytest.mark.parametrize("cut", [0.0, 0.001])
def test_fast_ctc_decode_reads_as_we_do(cut: float) -> None:
    if find_spec("fast_ctc_decode") is None:
        pytest.skip("fast_ctc_decode is not installed")
    lexicon = words(50)
    heard = utter(Speaker(50), lexicon, CERTAIN, count=3, frames=100)
    (search,) = peers_ctc.fast_ctc_decode(size=8, cut=cut).values()
    assert [found.symbols for found in search(heard.logits)()] == [read(logits) for logits in heard.logits]


@pytest.mark.parametrize("kind", ["free", "lexicon", "language"])
def test_flashlight_reads_as_we_do(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("flashlight") is None:
        pytest.skip("flashlight-text is not installed")
    monkeypatch.setattr(emissions, "DOUBT", 0.0)
    monkeypatch.setattr(ctc, "FEW", 50)
    monkeypatch.setattr(ctc, "SENTENCES", 200)
    lexicon = words(50)
    heard = utter(Speaker(50), lexicon, CERTAIN, count=3, frames=100)
    arpa = None
    if kind == "language":
        arpa = tmp_path / "language.arpa"
        ctc.language.cache_clear()
        write_arpa(ctc.language(), [*lexicon, "<unk>", "<s>", "</s>"], arpa)
        ctc.language.cache_clear()
    given = () if kind == "free" else lexicon
    (search,) = peers_ctc.flashlight(size=8, lexicon=given, arpa=arpa, weight=0.5).values()
    found = search(heard.logits)()
    assert [each.symbols for each in found] == [read(logits) for logits in heard.logits]
    assert [each.words for each in found] == ([[]] * 3 if kind == "free" else heard.words)


def test_peers_that_are_not_there_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert peers_ctc.missing("no_such_module", "a peer")
    assert capsys.readouterr().err == "Not compared with a peer: No module named 'no_such_module'\n"


def test_quality() -> None:
    logits = torch.tensor([[[0.0, 2.0, 1.0], [2.0, 0.0, 0.0]]])
    heard = Utterances([[4, 5]], logits.numpy())
    good, bad, none = Found([1], [4, 5]), Found([2], [4]), Found([], [])
    judged = ctc.quality("case", heard, [good], [bad], "peer", words=False)
    probabilities = logits[0].double().softmax(dim=1)
    for found, symbol in ((judged.ours, 1), (judged.peer, 2)):
        paths = [(symbol, symbol), (symbol, 0), (0, symbol)]
        total = sum(probabilities[0, first] * probabilities[1, second] for first, second in paths)
        assert found == pytest.approx(-np.log(float(total)), abs=5e-4)
    assert judged.ratio > 1
    assert ctc.quality("case", heard, [bad], [good], "peer", words=False).ratio < 1
    errors = ctc.quality("case", heard, [bad], [none], "peer", words=True)
    assert (errors.ours, errors.peer, errors.ratio) == (1, 2, 1.5)
    assert ctc.quality("case", heard, [good], [good], "peer", words=True).ratio == 1


def take_turns_once(contestants: Mapping[str, Callable[[], object]], **_: int) -> dict[str, Timing]:
    """Without a clock: later ones are slower."""
    for contestant in contestants.values():
        contestant()
    return {name: Timing(2.0 + index, 1.0 + index) for index, name in enumerate(contestants)}


def test_every_case_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(**_: object) -> dict[str, Searcher]:
        return {"a peer": lambda logits: lambda: [Found(read(row), []) for row in logits]}

    given = {"LOSSES": ((12, 2, 5, 3),), "SHAPES": {80: (1, 2), 90: (1, 2)}, "FEW": 30, "MANY": 60, "SENTENCES": 50}
    for name, value in (given | {"take_turns": take_turns_once}).items():
        monkeypatch.setattr(ctc, name, value)
    for name in ("fast_ctc_decode", "flashlight"):
        monkeypatch.setattr(peers_ctc, name, greedy)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    cached = (ctc.vocabulary, ctc.language, ctc.guide)
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
    assert len(rates) == len(list(product(range(6), ctc.KINDS, given["SHAPES"])))  # type: ignore[call-overload]
    assert all(result.ratio == 1.5 and result.goal == 5 and result.peer == 1 / 3 for result in rates)
    judged = [result for result in results if result.case.endswith(("word errors", "improbability"))]
    assert len(judged) == len(rates)
    assert [result.threads for result in results if result.case.startswith("loss")] == [1, 2]
    assert [result.goal for result in results if result.peer_name == "ours, 1 thread"] == [1.8, 1.8]
