"""ARPA files: written and read, read by KenLM, written by others, damaged."""

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seqloom.data.readers.text_files import DataError
from seqloom.models.ngram.arpa import ArpaVocabulary, from_arpa_words, read_arpa, read_words, to_arpa_words, write_arpa
from seqloom.models.ngram.kneser_ney import estimate
from seqloom.models.ngram.ngram import NGram

# Without <unk> and without some back-offs; "a b" and "<s> a b" are there, but not "b </s>" below "a b </s>".
FOREIGN = """
\\data\\
ngram 1=4
ngram 2=3
ngram 3=2

\\1-grams:
-99\t<s>\t-0.5
-0.6\t</s>
-0.7  a  -0.25
-0.8 b -0.125

\\2-grams:
-0.3\ta b\t-0.0625

-0.2\t<s> a\t0.03125
-0.4\tb a
\\3-grams:
-0.1\ta b </s>
-0.05\t<s> a b

\\end\\
"""
SYMBOLS = ["<s>", "</s>", "<unk>", "Ä", "b\u00a0c", "\\data\\", *(f"w{index}" for index in range(20))]


def model(order: int) -> NGram:
    random = np.random.default_rng(order)
    texts = [(3 + random.binomial(22, random.random(), size)).tolist() for size in random.integers(0, 9, 150)]
    return estimate(texts, order=order, start=0, end=1, vocabulary=len(SYMBOLS))


def read(text: str, folder: Path) -> tuple[NGram, tuple[str, ...]]:
    path = folder / "model.arpa"
    path.write_text(text, encoding="utf-8", newline="")
    return read_arpa(path)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_written_and_read(order: int, tmp_path: Path) -> None:
    expected = model(order)
    write_arpa(expected, ["start", "end", *SYMBOLS[2:]], tmp_path / "model.arpa")
    arpa_model, symbols = read_arpa(tmp_path / "model.arpa")
    assert list(symbols) == SYMBOLS
    assert (arpa_model.start, arpa_model.end, arpa_model.fallbacks) == (0, 1, ())
    for name, tensor in expected.tensors().items():
        if name != "fallbacks":
            np.testing.assert_array_equal(arpa_model.tensors()[name], tensor, err_msg=name)


def test_kenlm_reads_the_same_scores(tmp_path: Path) -> None:
    kenlm = pytest.importorskip("kenlm")
    ours = model(4)
    path = tmp_path / "model.arpa"
    write_arpa(ours, SYMBOLS, path)
    theirs = kenlm.Model(str(path))
    random = np.random.default_rng(9)
    texts = [random.integers(2, len(SYMBOLS), size).tolist() for size in random.integers(0, 12, 100)]
    texts += [(3 + random.binomial(22, random.random(), 8)).tolist() for _ in range(100)]
    for text, actual in zip(texts, ours.score(texts), strict=True):
        scores = theirs.full_scores(" ".join(SYMBOLS[word] for word in text))
        expected = [probability * math.log(10) for probability, _, _ in scores]
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)  # KenLM adds in float32


def check_arpa(arpa_model: NGram, symbols: tuple[str, ...]) -> None:
    assert symbols == ("<s>", "</s>", "a", "b")
    assert arpa_model.order == 3
    assert arpa_model.log_probabilities[0][arpa_model.start] == -np.inf
    (scores,) = arpa_model.score([[2, 3, 3, 2]])
    expected = [
        -0.2,  # <s> a
        -0.05,  # <s> a b
        -0.0625 - 0.125 - 0.8,  # a b, b, b
        -0.4,  # b a; "b b" is not known
        -0.25 - 0.6,  # b a without back-off, a, </s>
    ]
    np.testing.assert_allclose(scores / math.log(10), expected, rtol=1e-6)
    assert arpa_model.score([[2, 3]])[0][-1] == pytest.approx(-0.1 * math.log(10))


def test_files_of_other_programs_are_read(tmp_path: Path) -> None:
    check_arpa(*read(FOREIGN, tmp_path))
    check_arpa(*read(FOREIGN.replace("\n", "\r\n"), tmp_path))
    (tmp_path / "model.arpa.gz").write_bytes(gzip.compress(FOREIGN.encode()))
    check_arpa(*read_arpa(tmp_path / "model.arpa.gz"))


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        pytest.param("\\data\\", "the cat sat", 2, r"expected \\data\\, found 'the cat sat'", id="no ARPA"),
        pytest.param(FOREIGN, "", 1, "found the end of the file", id="empty"),
        pytest.param("ngram 2=3\n", "", 4, "expected the size of order 2, found that of order 3", id="sizes"),
        pytest.param("ngram 2=3", "ngram 2=4", 13, "expected 4 2-grams as in the header, found 3", id="size"),
        pytest.param("ngram 3=2\n", "", 17, r"expected \\end\\, found '\\\\3-grams:'", id="one order more"),
        pytest.param(
            "-0.8 b", "-0.8 b c", 11, "expected a probability, 1 words and a back-off, found 4 fields", id="fields"
        ),
        pytest.param("-0.8 b", "-0.8 a", 11, "the word 'a' occurs twice", id="word twice"),
        pytest.param(
            "-0.8 b", "zero b", 11, "expected a logarithm: could not convert string to float: 'zero'", id="number"
        ),
        pytest.param("-0.8 b", "0.8 b", 11, "expected the logarithm of a probability, at most 0", id="positive"),
        pytest.param("-0.8 b", "nan b", 11, "expected the logarithm of a probability, at most 0", id="nan"),
        pytest.param("-0.125", "1e300", 11, "expected a finite logarithm as back-off", id="infinite"),
        pytest.param("-99\t<s>", "-99\t<S>", 13, "the 1-grams do not contain <s>", id="no start"),
        pytest.param("<s> a\t", "<s> c\t", 16, "the word 'c' is not among the 1-grams", id="unknown"),
        pytest.param("b a", "a b", 17, "this n-gram occurs twice", id="twice"),
        pytest.param(
            "<s> a b", "b b a", 20, "the file does not contain this n-gram without its last word", id="orphan"
        ),
        pytest.param("\\end\\", "", 20, r"expected \\end\\, found the end of the file", id="cut off"),
    ],
)
def test_errors_name_the_line(old: str, new: str, line: int, message: str, tmp_path: Path) -> None:
    assert old in FOREIGN
    with pytest.raises(DataError, match=message) as caught:
        read(FOREIGN.replace(old, new, 1), tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'model.arpa'}:{line}: ")


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_are_rejected_or_read(data: st.DataObject, tmp_path: Path) -> None:
    first = data.draw(st.integers(0, len(FOREIGN)))
    last = data.draw(st.integers(first, min(first + 9, len(FOREIGN))))
    piece = data.draw(st.text(alphabet="\\\t\n\r -.0129abes<>/=:ngrm\x00é", max_size=9))
    message = ""
    try:
        arpa_model, _ = read(FOREIGN[:first] + piece + FOREIGN[last:], tmp_path)
        arpa_model.score(
            [[word for word in range(arpa_model.vocabulary) if word not in (arpa_model.start, arpa_model.end)]]
        )
    except DataError as error:
        message = str(error)
    assert not message or message.startswith(f"{tmp_path / 'model.arpa'}:")


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        pytest.param(SYMBOLS[:-1], "expected 26 tokens, one for each of the model, found 25", id="too few"),
        pytest.param(
            [*SYMBOLS[:-1], "a b"], "token 25 is 'a b', but ARPA words are not empty and have no whitespace", id="blank"
        ),
        pytest.param([*SYMBOLS[:-2], " ", "<space>"], "tokens 24 and 25 are both '<space>'", id="space"),
        pytest.param([*SYMBOLS[:-1], ""], "token 25 is ''", id="empty"),
        pytest.param([*SYMBOLS[:-1], "</s>"], "tokens 1 and 25 are both '</s>'", id="twice"),
    ],
)
def test_invalid_tokens_are_rejected(symbols: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        write_arpa(model(2), symbols, tmp_path / "model.arpa")
    assert not list(tmp_path.iterdir())


def test_compressed_files_hold_the_same(tmp_path: Path) -> None:
    for name in ("a.arpa", "b.arpa.gz", "c.arpa.gz"):
        write_arpa(model(3), SYMBOLS, tmp_path / name)
    compressed = (tmp_path / "b.arpa.gz").read_bytes()
    assert gzip.decompress(compressed) == (tmp_path / "a.arpa").read_bytes()
    assert compressed == (tmp_path / "c.arpa.gz").read_bytes()
    assert len(list(tmp_path.iterdir())) == 3


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.arpa"
    path.write_text("before")

    def fail(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("seqloom.models.ngram.arpa.ngram_words", fail)
    with pytest.raises(OSError, match="full"):
        write_arpa(model(2), SYMBOLS, path)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["before"]


def test_whitespace_characters_are_written_as_words(tmp_path: Path) -> None:
    symbols = [*SYMBOLS[:-3], " ", "\t", "\r"]
    write_arpa(model(2), symbols, tmp_path / "a.arpa")
    words = read_words(tmp_path / "a.arpa")
    assert words[-3:] == ("<space>", "<tab>", "<return>")
    assert list(words) == to_arpa_words(symbols)
    assert from_arpa_words(words) == symbols


@pytest.mark.parametrize("unknown", ["<unk>", "<UNK>", ""])
def test_words_in_any_order_are_renumbered(unknown: str, tmp_path: Path) -> None:
    text = FOREIGN.replace("-99\t<s>\t-0.5\n", "").replace("-0.8 b -0.125\n", "-0.8 b -0.125\n-99\t<s>\t-0.5\n")
    if unknown:
        text = text.replace("-0.7  a", f"-2.5 {unknown} -0.3\n-0.7 a").replace("ngram 1=4", "ngram 1=5")
    arpa_model, words = read(text, tmp_path)
    assert words == read_words(tmp_path / "model.arpa") == ("</s>", *filter(None, [unknown]), "a", "b", "<s>")
    vocabulary = ArpaVocabulary.from_words(words)
    assert vocabulary.names == ("<s>", "<unk>", "</s>", "a", "b")
    ours = vocabulary.renumber(arpa_model)
    assert (ours.start, ours.end, ours.vocabulary) == (0, 2, 5)
    texts = [["a", "b", "b", "a"], ["b"], [], ["a"]]
    expected = arpa_model.score([words.index(word) for word in text] for text in texts)
    for row, scores in zip(
        ours.score([vocabulary.names.index(word) for word in text] for text in texts), expected, strict=True
    ):
        np.testing.assert_array_equal(row, scores)
    assert ours.score([[1]])[0][0] / math.log(10) == pytest.approx(-0.5 + (-2.5 if unknown else -99), rel=1e-6)


def test_a_file_with_both_unknown_words() -> None:
    assert ArpaVocabulary.from_words(["<UNK>", "</s>", "<unk>", "<s>"]).names == ("<s>", "<unk>", "</s>", "<UNK>")
