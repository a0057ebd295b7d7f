import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from seqloom.metrics.text import bleu, chrf, edit_distance, edit_errors

# The example of sacrebleu's README, with its two references.
FOUND = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
WANTED = ["The dog bit the man.", "It was not unexpected.", "The man bit him first."]
ALSO = ["The dog had bit the man.", "No one was surprised.", "The man had bitten the dog."]


def table(found: str, wanted: str) -> int:
    """The distance by its definition: a row for each symbol that was found."""
    costs = np.zeros((len(found) + 1, len(wanted) + 1), dtype=int)
    costs[:, 0], costs[0] = range(len(found) + 1), range(len(wanted) + 1)
    for row, one in enumerate(found, start=1):
        for column, other in enumerate(wanted, start=1):
            costs[row, column] = min(
                costs[row - 1, column] + 1, costs[row, column - 1] + 1, costs[row - 1, column - 1] + (one != other)
            )
    return int(costs[-1, -1])


@given(st.text("abc", max_size=9), st.text("abc", max_size=9))
def test_the_distance_is_that_of_its_definition(found: str, wanted: str) -> None:
    assert edit_distance(found, wanted) == table(found, wanted)
    assert edit_distance(list(found), list(wanted)) == table(found, wanted)


def test_error_rates_of_phonemes() -> None:
    sources = ["TOMATO", "READ", "CAT"]
    found = [["T", "AH", "M", "EY", "T", "OW"], ["R", "AY", "D"], ["K", "AE", "T", "S"]]
    wanted = [["T", "AH", "M", "AA", "T", "OW"], ["R", "IY", "D"], ["K", "AE", "T"]]
    errors = edit_errors(sources, found, wanted)
    assert errors.errors.tolist() == [1, 1, 1]
    assert errors.symbol_error_rate == pytest.approx(3 / 12)
    assert errors.sequence_error_rate == 1
    assert errors.exact_match == 0


def test_any_listed_answer_counts_and_each_source_once() -> None:
    sources = ["READ", "TOMATO", "READ", "TOMATO", "READ"]
    found = [["R", "EH", "D"], ["T"], ["R", "EH", "D"], ["T"], ["X"]]
    wanted = [["R", "IY", "D"], ["T", "AH", "M", "AA"], ["R", "EH", "D"], ["T", "AH"], ["R"]]
    errors = edit_errors(sources, found, wanted)
    assert errors.errors.tolist() == [0, 1]
    assert errors.symbols.tolist() == [3, 2]  # of the nearest ones
    assert errors.exact_match == 0.5
    low, high = errors.exact_match_interval
    assert 0.09 < low < 0.1 < 0.9 < high < 0.91  # Wilson's interval of 1 of 2


def test_more_errors_than_symbols_and_nothing_at_all() -> None:
    assert edit_errors(["a"], ["xyz"], ["b"]).symbol_error_rate == 3
    assert edit_errors(["a"], ["x"], [""]).symbol_error_rate == 1  # as of one symbol
    nothing = edit_errors([], [], [])
    assert (nothing.symbol_error_rate, nothing.sequence_error_rate) == (0, 0)
    assert nothing.symbol_error_interval == (0, 1)


def test_the_interval_of_an_error_rate_holds_it() -> None:
    draw = np.random.default_rng(1)
    wanted = ["".join(draw.choice(list("ab"), size=8)) for _ in range(200)]
    found = [text[1:] if number % 3 else text for number, text in enumerate(wanted)]
    errors = edit_errors(range(200), found, wanted)
    low, high = errors.symbol_error_interval
    assert low < errors.symbol_error_rate < high
    # Two thirds of the texts have one error in 8 symbols: the deviation of their mean is √(2/9/200)/8.
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(2 / 9 / 200) / 8, rel=0.15)


def test_bleu_and_chrf_are_those_of_sacrebleu() -> None:
    found = bleu(FOUND, WANTED)
    theirs = sacrebleu.BLEU()
    assert found.score == pytest.approx(theirs.corpus_score(FOUND, [WANTED]).score, abs=1e-9)
    assert found.signature == str(theirs.get_signature())
    assert "case:mixed" in found.signature
    assert "tok:13a" in found.signature
    assert chrf(FOUND, WANTED).score == pytest.approx(sacrebleu.corpus_chrf(FOUND, [WANTED]).score, abs=1e-9)


def test_the_figure_that_sacrebleu_publishes() -> None:
    assert bleu(FOUND, WANTED, others=[ALSO]).score == pytest.approx(48.530827009929865, abs=1e-9)
    both = sacrebleu.corpus_chrf(FOUND, [WANTED, ALSO]).score
    assert chrf(FOUND, WANTED, others=[ALSO]).score == pytest.approx(both, abs=1e-9)


def test_lower_case_and_words_as_they_are() -> None:
    shouted = [text.upper() for text in FOUND]
    assert bleu(shouted, WANTED).score < 10
    assert bleu(shouted, WANTED, lower=True).score == bleu(FOUND, WANTED, lower=True).score
    assert "case:lc" in bleu(FOUND, WANTED, lower=True).signature
    split = [" ".join(text.replace(".", " .").split()) for text in FOUND]
    assert bleu(split, split, tokenize="none").score == pytest.approx(100)


def test_bleu_by_hand() -> None:
    # Five words, of which 4, 3, 2, 1 n-grams are right; nothing is too short: the geometric mean of 4/5, 3/4, 2/3, 1/2.
    found = bleu(["a b c d x"], ["a b c d e"])
    assert found.score == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)


def test_intervals_of_corpora() -> None:
    texts = [f"the {word} sat on the mat again" for word in ["cat", "dog", "cow", "hen", "pig", "owl"] * 10]
    answers = [text if number % 2 else text.replace("sat", "lay") for number, text in enumerate(texts)]
    for found in (bleu(answers, texts), chrf(answers, texts)):
        assert found.interval[0] < found.score < found.interval[1]
    assert bleu(answers, texts)[:3] == bleu(answers, texts)[:3]
    assert bleu(texts, texts).interval == pytest.approx((100, 100))


def test_what_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="2 answers and 1 that were wanted"):
        bleu(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="nothing to compare"):
        chrf([], [])


def test_not_every_sentence_has_as_many_references() -> None:
    others: list[list[str | None]] = [[ALSO[0], None, ALSO[2]]]
    found = bleu(FOUND, WANTED, others=others)
    assert found.score == pytest.approx(sacrebleu.corpus_bleu(FOUND, [WANTED, others[0]]).score)  # type: ignore[list-item]
    assert "nrefs:var" in found.signature
    # Of "the the cat" two words stand in one reference or the other: "the" once, "cat".
    single = bleu(["the the cat"], ["the dog ran"], others=[["a cat sat"]], order=1)
    assert single.score == pytest.approx(100 * 2 / 3)


def test_texts_cut_at_blanks_bring_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    texts = ["a dog runs over the grass ."] * 200
    assert bleu(texts, texts).score == pytest.approx(100)
    assert not caplog.records
