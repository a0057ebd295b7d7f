"""Error rates beside those of jiwer, and the print-out of an alignment."""

import math

import jiwer
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.metrics.transcripts import AlignedPair, Transcripts, align, error_rate, printed, report

WORDS = st.lists(st.sampled_from(["yes", "no", "one", "two", "x"]), max_size=7)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5))
def test_rates_of_words_and_characters_equal_jiwer(pairs: list[tuple[list[str], list[str]]]) -> None:
    pairs = [(found, wanted or ["x"]) for found, wanted in pairs]  # jiwer refuses what is empty
    texts = [" ".join(found) for found, _ in pairs], [" ".join(wanted) for _, wanted in pairs]
    words, characters = jiwer.process_words(texts[1], texts[0]), jiwer.process_characters(texts[1], texts[0])
    ours = error_rate([found for found, _ in pairs], [wanted for _, wanted in pairs])
    assert ours.value == pytest.approx(words.wer, abs=1e-12)
    assert ours.errors.sum() == words.substitutions + words.insertions + words.deletions
    assert ours.insertions.sum() - ours.deletions.sum() == words.insertions - words.deletions
    assert error_rate(*texts).value == pytest.approx(characters.cer, abs=1e-12)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(WORDS, WORDS)
def test_an_alignment_holds_both_sequences(found: list[str], wanted: list[str]) -> None:
    pairs = align(found, wanted)
    assert [pair.wanted for pair in pairs if pair.wanted is not None] == wanted
    assert [pair.found for pair in pairs if pair.found is not None] == found
    assert all(pair != AlignedPair(None, None) for pair in pairs)


def test_counts_intervals_and_confusions() -> None:
    found = error_rate([list("abd"), [], list("xabc")], [list("abc"), list("a"), list("abc")])
    assert found.counts() == {"substitutions": 1, "insertions": 1, "deletions": 1, "symbols": 7}
    assert found.value == pytest.approx(3 / 7)
    assert found.exact_match == 0
    low, high = found.interval
    assert low <= found.value <= high
    assert found.confusions(2) == [
        {"wanted": "", "found": "x", "times": 1},
        {"wanted": "a", "found": "", "times": 1},
    ]
    nothing = error_rate([], [])
    assert nothing.value == 0
    assert np.array_equal(nothing.errors, [])


def test_an_alignment_is_printed_symbol_below_symbol() -> None:
    assert printed(["the", "cat", "sat"], ["the", "black", "cat", "sit"], name="a.wav") == (
        "a.wav: 4 wanted, 1 replaced, 0 put in, 1 left out\n"
        "REF:  the black cat sit\n"
        "HYP:  the ***** cat sat\n"
        "EVAL:     D         S"
    )
    assert printed("a bd", "a b c").splitlines()[1:] == ["REF:  a_b_c", "HYP:  a_bd*", "EVAL:    SD"]


def test_the_loss_is_infinite_where_no_transcript_is_possible() -> None:
    def heard(*losses: float | None) -> Transcripts:
        texts = ["ab"] * len(losses)
        return Transcripts(texts, texts, texts, texts, texts, losses)

    assert heard(3.0, None, 6.0).surprise.whole == heard(3.0, None, 6.0).score(["cer"])["loss"] == 9 / 6
    assert heard(None, None).surprise.whole == heard(None, None).score(["cer"])["loss"] == math.inf
    sums = heard(3.0, None).sums("loss", ["cer"])
    assert sums.value(sums.rows[1]) == math.inf  # a sample without the possible one


def test_as_many_are_wanted() -> None:
    with pytest.raises(ValueError, match="there are 1 transcripts and 2 that were wanted"):
        error_rate(["a"], ["a", "b"])


def test_a_report_prints_the_worst_first() -> None:
    found, wanted = ["a b", "c", "x y"], ["a b", "d", "v w"]
    cut = [text.split() for text in found], [text.split() for text in wanted]
    scores, details = report({"wer": cut, "cer": (found, wanted)}, ["one", "two", "three"])
    assert scores == {"wer": pytest.approx(3 / 5), "cer": pytest.approx(3 / 7), "exact_match": pytest.approx(1 / 3)}
    assert details["wer_errors"] == {"substitutions": 3, "insertions": 0, "deletions": 0, "symbols": 5}
    assert [text.partition(":")[0] for text in details["worst"]] == ["three", "two"]
    assert {"cer_interval", "cer_errors", "exact_match_interval", "confusions"} <= details.keys()
