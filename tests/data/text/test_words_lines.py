"""Words with line breaks and indentation: split and joined again, here and in the runtime."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqloom_runtime
from seqloom.data.text.tokenizers import TextConfig
from seqloom.data.text.words import join_lines, split_lines

PROGRAM = "  repeat 4\n    forward 2\n\n        left\nback 1\n"


def normalized(text: str) -> str:
    """The text with one blank between the words of a line, and none after its last word."""
    lines = []
    for line in text.split("\n"):
        indentation = line[: len(line) - len(line.lstrip())]
        lines.append(indentation + " ".join(line.split()))
    return "\n".join(lines)


def test_a_line_break_with_its_indentation_is_a_word() -> None:
    breaks = ["\n    ", "\n", "\n        ", "\n", "\n"]
    words = ["  ", "repeat", "4", breaks[0], "forward", "2", *breaks[1:3], "left", breaks[3], "back", "1", breaks[4]]
    assert split_lines(PROGRAM) == seqloom_runtime.split_lines(PROGRAM) == words
    assert join_lines(words) == seqloom_runtime.join_lines(words) == PROGRAM


TEXT = st.text(alphabet=st.one_of(st.sampled_from("ab \t\n\r\xa0"), st.characters(codec="utf-8")), max_size=30)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(TEXT)
def test_any_text_keeps_its_lines_and_their_indentation(text: str) -> None:
    assert join_lines(split_lines(text)) == normalized(text)
    assert split_lines(normalized(text)) == split_lines(text)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(TEXT, st.integers(1, 5))
def test_a_text_is_cut_between_its_words(text: str, length: int) -> None:
    config = TextConfig(split="lines")
    parts = list(config.cut(text, length))
    assert [word for part in parts for word in split_lines(part)] == split_lines(text)
    assert all(config.measure(part) <= length for part in parts)


@pytest.mark.parametrize("text", ["a b", "a\n\tb c\nd", "  a\n b", "a\n\n\n  b\n", "    ", ""])
def test_a_tokenizer_returns_the_text(text: str) -> None:
    config = TextConfig(split="lines")
    tokenizer = config.fit([text])
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert config.measure(text) == len(tokenizer.tokens(text))


def test_an_exported_tokenizer_does_the_same() -> None:
    tokenizer = TextConfig(split="lines").fit([PROGRAM])
    exported = seqloom_runtime.Tokenizer(tokenizer.model_dump(mode="json"))
    ids = tokenizer.encode(PROGRAM)
    assert exported.encode(PROGRAM) == ids
    assert exported.decode(ids) == tokenizer.decode(ids)
