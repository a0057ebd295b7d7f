"""Words with line breaks and indentation: split and joined again, here and in the runtime."""

import pytest

import seqloom_runtime
from seqloom.data.text.tokenizers import TextConfig
from seqloom.data.text.words import join_lines, split_lines

PROGRAM = "repeat 4\n    forward 2\n\n        left\nback 1"


def test_a_line_break_with_its_indentation_is_a_word() -> None:
    words = ["repeat", "4", "\n    ", "forward", "2", "\n        ", "left", "\n", "back", "1"]
    assert split_lines(PROGRAM) == seqloom_runtime.split_lines(PROGRAM) == words
    assert join_lines(words) == seqloom_runtime.join_lines(words) == PROGRAM.replace("\n\n", "\n")


@pytest.mark.parametrize("text", ["a b", "a\n\tb c\nd", "  a\n b", ""])
def test_a_tokenizer_returns_the_text(text: str) -> None:
    config = TextConfig(split="lines")
    tokenizer = config.fit([text])
    assert tokenizer.decode(tokenizer.encode(text)) == text.strip()
    assert config.measure(text) == len(tokenizer.tokens(text))
    assert [word for part in config.cut(text, 2) for word in part.split()] == text.split()


def test_an_exported_tokenizer_does_the_same() -> None:
    tokenizer = TextConfig(split="lines").fit([PROGRAM])
    exported = seqloom_runtime.Tokenizer(tokenizer.model_dump(mode="json"))
    ids = tokenizer.encode(PROGRAM)
    assert exported.encode(PROGRAM) == ids
    assert exported.decode(ids) == tokenizer.decode(ids)
