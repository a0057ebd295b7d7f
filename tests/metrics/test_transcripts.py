"""Error rates compared with jiwer, and formatted alignments."""

import math

import jiwer
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.metrics.transcripts import AlignedPair, Transcripts, align, error_rate, format_alignment, report

WORDS = st.lists(st.sampled_from(["yes", "no", "one", "two", "x"]), max_size=7)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5))
def test_wer_and_cer_equal_jiwer(pairs: list[tuple[list[str], list[str]]]) -> None:
    pairs = [(hypothesis, reference or ["x"]) for hypothesis, reference in pairs]  # jiwer refuses empty references
    texts = [" ".join(words) for words, _ in pairs], [" ".join(words) for _, words in pairs]
    words, characters = jiwer.process_words(texts[1], texts[0]), jiwer.process_characters(texts[1], texts[0])
    ours = error_rate([left for left, _ in pairs], [right for _, right in pairs])
    assert ours.value == pytest.approx(words.wer, abs=1e-12)
    assert ours.errors.sum() == words.substitutions + words.insertions + words.deletions
    assert ours.insertions.sum() - ours.deletions.sum() == words.insertions - words.deletions
    assert error_rate(*texts).value == pytest.approx(characters.cer, abs=1e-12)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(WORDS, WORDS)
def test_an_alignment_contains_both_sequences(hypothesis: list[str], reference: list[str]) -> None:
    pairs = align(hypothesis, reference)
    assert [pair.reference for pair in pairs if pair.reference is not None] == reference
    assert [pair.hypothesis for pair in pairs if pair.hypothesis is not None] == hypothesis
    assert all(pair != AlignedPair(None, None) for pair in pairs)


def test_counts_intervals_and_confusions() -> None:
    rate = error_rate([list("abd"), [], list("xabc")], [list("abc"), list("a"), list("abc")])
    assert rate.counts() == {"substitutions": 1, "insertions": 1, "deletions": 1, "tokens": 7}
    assert rate.value == pytest.approx(3 / 7)
    assert rate.exact_match == 0
    low, high = rate.interval
    assert low <= rate.value <= high
    assert rate.confusions(2) == [
        {"reference": "", "hypothesis": "x", "count": 1},
        {"reference": "a", "hypothesis": "", "count": 1},
    ]
    nothing = error_rate([], [])
    assert nothing.value == 0
    assert np.array_equal(nothing.errors, [])


def test_aligned_tokens_are_printed_in_columns() -> None:
    assert format_alignment(["the", "cat", "sat"], ["the", "black", "cat", "sit"], name="a.wav") == (
        "a.wav: 4 tokens, 1 substitutions, 0 insertions, 1 deletions\n"
        "REF:  the black cat sit\n"
        "HYP:  the ***** cat sat\n"
        "EVAL:     D         S"
    )
    assert format_alignment("a bd", "a b c").splitlines()[1:] == ["REF:  a_b_c", "HYP:  a_bd*", "EVAL:    SD"]


def test_the_loss_is_infinite_if_all_examples_are_infeasible() -> None:
    def transcripts(*losses: float | None) -> Transcripts:
        texts = ["ab"] * len(losses)
        return Transcripts(texts, texts, texts, texts, texts, losses)

    assert transcripts(3.0, None, 6.0).loss.whole == transcripts(3.0, None, 6.0).score(["cer"])["loss"] == 9 / 6
    assert transcripts(None, None).loss.whole == transcripts(None, None).score(["cer"])["loss"] == math.inf
    sums = transcripts(3.0, None).sums("loss", ["cer"])
    assert sums.value(sums.rows[1]) == math.inf  # a sample without the feasible example


def test_each_reference_needs_a_transcript() -> None:
    with pytest.raises(ValueError, match="expected 2 transcripts, one per reference, found 1"):
        error_rate(["a"], ["a", "b"])


def test_a_report_lists_the_worst_transcripts_first() -> None:
    hypotheses, references = ["a b", "c", "x y"], ["a b", "d", "v w"]
    words = [text.split() for text in hypotheses], [text.split() for text in references]
    scores, details = report({"wer": words, "cer": (hypotheses, references)}, ["one", "two", "three"])
    assert scores == {"wer": pytest.approx(3 / 5), "cer": pytest.approx(3 / 7), "exact_match": pytest.approx(1 / 3)}
    assert details["wer_errors"] == {"substitutions": 3, "insertions": 0, "deletions": 0, "tokens": 5}
    assert [text.partition(":")[0] for text in details["worst"]] == ["three", "two"]
    assert {"cer_interval", "cer_errors", "exact_match_interval", "confusions"} <= details.keys()
