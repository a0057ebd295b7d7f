"""A lexicon: the words that may be found, and how each of them is spelt in symbols, as a prefix tree in flat arrays."""

from collections.abc import Iterable, Sequence


class Lexicon:
    """Words with their spellings; a word may have several, and several words one and the same.

    With a ``separator``, a symbol that stands between words, a word is complete when the separator or the end comes;
    without one (phones) directly.
    """

    def __init__(self, spellings: Iterable[tuple[str, Sequence[int]]], *, separator: int | None = None) -> None:
        self.separator = separator
        self.words: list[str] = []  # numbered in the order of their first spelling
        self.spellings: list[tuple[int, tuple[int, ...]]] = []
        numbers: dict[str, int] = {}
        for word, spelling in spellings:
            if not len(spelling):
                raise ValueError(f"the word {word!r} has an empty spelling")
            number = numbers.setdefault(word, len(numbers))
            if number == len(self.words):
                self.words.append(word)
            self.spellings.append((number, tuple(spelling)))
