"""How a transcript is written in the tokens of the model, as it is or as pronunciations, and what a lexicon allows."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from seqloom.data.readers.pronunciations import first_spellings
from seqloom.data.readers.recordings import Recording
from seqloom.data.readers.text_files import DataError, resolve
from seqloom.data.text.vocabulary import UNKNOWN


@dataclass(frozen=True)
class Spelling:
    """The spelling of transcripts by the first pronunciation of each word in a lexicon."""

    lexicon: str  # file with pronunciations; empty: transcripts are spelled as they are
    encoding: str  # of the file

    def is_readable(self) -> bool:
        """Whether the lexicon exists."""
        try:
            return resolve(self.lexicon).is_file()
        except DataError:
            return False

    def check(self, example: Recording) -> None:
        """DataError if a word has no pronunciation in the lexicon."""
        for word in (example.text or "").split() if self.lexicon else ():
            if word not in self._spellings:
                raise DataError(example.location, f"the word {word[:60]!r} is not in {self.lexicon}")

    def spell(self, text: str) -> str:
        """The text as the model spells it; a word that is not in the lexicon counts as one wrong token."""
        if not self.lexicon:
            return text
        return " ".join(token for word in text.split() for token in self._spellings.get(word, (UNKNOWN,)))

    def counts(self, text: str) -> list[tuple[str, int]]:
        """The words of a text with the numbers of their tokens; empty if transcripts are spelled as they are."""
        return [(word, len(self._spellings[word])) for word in text.split()] if self.lexicon else []

    @cached_property
    def _spellings(self) -> dict[str, tuple[str, ...]]:
        return first_spellings(resolve(self.lexicon), encoding=self.encoding)


class LexiconVocabulary:
    """The words of a lexicon, the only ones that a search with it can output."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = frozenset(words)
        self.longest = max(map(len, self.words), default=0)

    def out_of_vocabulary(
        self,
        text: str,
        *,
        joined: bool,  # a text without spaces may be several words, as where no transcript has spaces
    ) -> list[str]:
        """The words of a text that are not in the lexicon."""
        words = text.split()
        if joined and len(words) == 1 and self._is_joined(words[0]):
            return []
        return [word for word in words if word not in self.words]

    def _is_joined(self, text: str) -> bool:
        """Whether a text consists of words of the lexicon."""
        ends = {0}  # of sequences of words from the start
        for end in range(1, len(text) + 1):
            if any(text[start:end] in self.words for start in range(max(end - self.longest, 0), end) if start in ends):
                ends.add(end)
        return len(text) in ends
