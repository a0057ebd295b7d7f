"""What kind of text a sample shows: single words, a small set of symbols, or sentences."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from seqloom.data.text.tokenizers import Split, Unit
from seqloom.data.text.words import is_tokenized

SPLIT_DEFAULT = "whitespace if punctuation stands apart already, as in tokenised text, otherwise punctuation"
SINGLE_WORDS = 1.2  # mean number of words up to which texts are single words, such as names
NATURAL_TYPES = 500  # distinct words of a sample from which on it is natural language
MANY_TEXTS = 10_000  # from which on subwords can be learned well
REPEATED = 10  # mean occurrences of the words of a small, closed vocabulary
CLOSED = 50  # distinct words of a closed vocabulary


class TextSample(NamedTuple):
    """Counts over some texts of a data set."""

    texts: int
    characters: int
    words: int  # separated by whitespace
    types: int  # distinct words
    split: Split  # where words end

    @classmethod
    def of(cls, texts: Iterable[str]) -> "TextSample":
        texts = list(texts)
        counts: Counter[str] = Counter()
        number = characters = 0
        for text in texts:
            number += 1
            characters += len(text)
            counts.update(text.split())
        split: Split = "whitespace" if is_tokenized(texts) else "punctuation"
        return cls(number, characters, counts.total(), len(counts), split)

    @property
    def single_words(self) -> bool:
        """Whether each text is about one word, such as a name or a sequence of bases."""
        return 0 < self.words <= SINGLE_WORDS * self.texts and self.characters > self.words

    @property
    def closed_vocabulary(self) -> bool:
        """Whether the texts consist of few words that recur, such as digits, commands or phones."""
        return 0 < self.types <= CLOSED and self.words >= REPEATED * self.types

    def unit(self, texts: int) -> Unit:
        """The tokens that suit a data set of this many such texts."""
        if self.single_words:
            return "characters"
        return "subwords" if self.natural and texts >= MANY_TEXTS else "words"

    @property
    def natural(self) -> bool:
        """Whether the texts have many different words."""
        return self.types >= NATURAL_TYPES
