"""BLEU and chrF against sacrebleu, edit distances against their definition."""

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from seqloom.metrics.text import bleu, chrf, edit_distance, edit_errors

# The example of sacrebleu's README, with its two references.
HYPOTHESES = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
REFERENCES = ["The dog bit the man.", "It was not unexpected.", "The man bit him first."]
SECOND = ["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."]


def distance_by_table(hypothesis: str, reference: str) -> int:
    """The distance by its definition, with a row for each token of the hypothesis."""
    costs = np.zeros((len(hypothesis) + 1, len(reference) + 1), dtype=int)
    costs[:, 0], costs[0] = range(len(hypothesis) + 1), range(len(reference) + 1)
    for row, token in enumerate(hypothesis, start=1):
        for column, other in enumerate(reference, start=1):
            costs[row, column] = min(
                costs[row - 1, column] + 1, costs[row, column - 1] + 1, costs[row - 1, column - 1] + (token != other)
            )
    return int(costs[-1, -1])


@given(st.text("abc", max_size=9), st.text("abc", max_size=9))
def test_edit_distance_equals_its_definition(hypothesis: str, reference: str) -> None:
    assert edit_distance(hypothesis, reference) == distance_by_table(hypothesis, reference)
    assert edit_distance(list(hypothesis), list(reference)) == distance_by_table(hypothesis, reference)


def test_error_rates_of_phones() -> None:
    sources = ["TOMATO", "READ", "CAT"]
    hypotheses = [["T", "AH", "M", "EY", "T", "OW"], ["R", "AY", "D"], ["K", "AE", "T", "S"]]
    references = [["T", "AH", "M", "AA", "T", "OW"], ["R", "IY", "D"], ["K", "AE", "T"]]
    errors = edit_errors(sources, hypotheses, references)
    assert errors.errors.tolist() == [1, 1, 1]
    assert errors.token_error_rate == pytest.approx(3 / 12)
    assert errors.sequence_error_rate == 1
    assert errors.exact_match == 0


def test_any_reference_counts_and_each_source_once() -> None:
    sources = ["READ", "TOMATO", "READ", "TOMATO", "READ"]
    hypotheses = [["R", "EH", "D"], ["T"], ["R", "EH", "D"], ["T"], ["X"]]
    references = [["R", "IY", "D"], ["T", "AH", "M", "AA"], ["R", "EH", "D"], ["T", "AH"], ["R"]]
    errors = edit_errors(sources, hypotheses, references)
    assert errors.errors.tolist() == [0, 1]
    assert errors.tokens.tolist() == [3, 2]  # of the nearest ones
    assert errors.exact_match == 0.5
    low, high = errors.exact_match_interval
    assert 0.09 < low < 0.1 < 0.9 < high < 0.91  # Wilson's interval of 1 of 2


def test_more_errors_than_tokens_and_no_tokens() -> None:
    assert edit_errors(["a"], ["xyz"], ["b"]).token_error_rate == 3
    assert edit_errors(["a"], ["x"], [""]).token_error_rate == 1  # as for one token
    nothing = edit_errors([], [], [])
    assert (nothing.token_error_rate, nothing.sequence_error_rate) == (0, 0)
    assert nothing.token_error_interval == (0, 1)


def test_confidence_interval_contains_the_error_rate() -> None:
    draw = np.random.default_rng(1)
    references = ["".join(draw.choice(list("ab"), size=8)) for _ in range(200)]
    hypotheses = [text[1:] if index % 3 else text for index, text in enumerate(references)]
    errors = edit_errors(range(200), hypotheses, references)
    low, high = errors.token_error_interval
    assert low < errors.token_error_rate < high
    # Two thirds of the texts have one error in 8 tokens: the standard deviation of the mean is √(2/9/200)/8.
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(2 / 9 / 200) / 8, rel=0.15)


def test_bleu_and_chrf_equal_sacrebleu() -> None:
    result = bleu(HYPOTHESES, REFERENCES)
    theirs = sacrebleu.BLEU()
    assert result.score == pytest.approx(theirs.corpus_score(HYPOTHESES, [REFERENCES]).score, abs=1e-9)
    assert result.signature == str(theirs.get_signature())
    assert "case:mixed" in result.signature
    assert "tok:13a" in result.signature
    assert chrf(HYPOTHESES, REFERENCES).score == pytest.approx(
        sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score, abs=1e-9
    )


def test_bleu_of_the_sacrebleu_readme() -> None:
    assert bleu(HYPOTHESES, REFERENCES, others=[SECOND]).score == pytest.approx(48.530827009929865, abs=1e-9)
    both = sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES, SECOND]).score
    assert chrf(HYPOTHESES, REFERENCES, others=[SECOND]).score == pytest.approx(both, abs=1e-9)


def test_lowercase_and_tokenized_texts() -> None:
    shouted = [text.upper() for text in HYPOTHESES]
    assert bleu(shouted, REFERENCES).score < 10
    assert bleu(shouted, REFERENCES, lowercase=True).score == bleu(HYPOTHESES, REFERENCES, lowercase=True).score
    assert "case:lc" in bleu(HYPOTHESES, REFERENCES, lowercase=True).signature
    split = [" ".join(text.replace(".", " .").split()) for text in HYPOTHESES]
    assert bleu(split, split, tokenize="none").score == pytest.approx(100)


def test_bleu_by_hand() -> None:
    # Five words with 4, 3, 2, 1 correct n-grams and no brevity penalty: the geometric mean of 4/5, 3/4, 2/3, 1/2.
    result = bleu(["a b c d x"], ["a b c d e"])
    assert result.score == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)


def test_confidence_intervals_of_corpus_scores() -> None:
    texts = [f"the {word} sat on the mat again" for word in ["cat", "dog", "cow", "hen", "pig", "owl"] * 10]
    answers = [text if index % 2 else text.replace("sat", "lay") for index, text in enumerate(texts)]
    for result in (bleu(answers, texts), chrf(answers, texts)):
        assert result.interval[0] < result.score < result.interval[1]
    assert bleu(answers, texts)[:3] == bleu(answers, texts)[:3]
    assert bleu(texts, texts).interval == pytest.approx((100, 100))


def test_invalid_inputs() -> None:
    with pytest.raises(ValueError, match="expected 1 hypotheses, one per reference, found 2"):
        bleu(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="there are no hypotheses"):
        chrf([], [])


def test_sentences_with_different_numbers_of_references() -> None:
    others: list[list[str | None]] = [[SECOND[0], None, SECOND[2]]]
    result = bleu(HYPOTHESES, REFERENCES, others=others)
    assert result.score == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES, others[0]]).score)  # type: ignore[list-item]
    assert "nrefs:var" in result.signature
    # Two words of "the the cat" occur in a reference: "the" once, and "cat".
    single = bleu(["the the cat"], ["the dog ran"], others=[["a cat sat"]], order=1)
    assert single.score == pytest.approx(100 * 2 / 3)


def test_tokenized_texts_cause_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    texts = ["a dog runs over the grass ."] * 200
    assert bleu(texts, texts).score == pytest.approx(100)
    assert not caplog.records
