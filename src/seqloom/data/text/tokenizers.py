"""Text ↔ token ids: characters, words, or learned subwords (Sennrich et al. 2016, Kudo 2018)."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from seqloom.config import ConfigSection
from seqloom.data.text.subwords import byte_level, metaspace, parse_subwords
from seqloom.data.text.unigram import train_unigram
from seqloom.data.text.vocabulary import END, PAD, START, UNKNOWN, Vocabulary, vocabulary_from_counts
from seqloom.data.text.words import count_words, cut_words, join_lines, join_words, split_lines, split_words
from seqloom.formats import quote_names

# The threads of the tokenizers library do not survive a fork, and sum in a different order each time.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

DEFAULT_SUBWORDS = 8000  # vocabulary size if none is set
NEWLINE_BYTE = "Ċ"  # how byte-level BPE writes a line break, for which it always has a token
RESERVED = (PAD, START, END)  # unknown if they occur in a text
Unit = Literal["characters", "words", "subwords"]
Split = Literal["whitespace", "punctuation", "lines"]


def _words(text: str, split: Split) -> list[str]:
    if split == "lines":
        return split_lines(text)
    return split_words(text) if split == "punctuation" else text.split()


class TextConfig(ConfigSection):
    """How text is split into tokens."""

    unit: Unit = Field("words", description="What a token is.")
    split: Split = Field(
        "whitespace",
        description="Where words end. whitespace: for text that is tokenised already; punctuation: also between words "
        "and punctuation, for raw text; each CJK character is a word; lines: at whitespace, but a line break with the "
        "indentation after it is a token, as is the indentation of a first line, for code.",
    )
    lowercase: bool = Field(default=False, description="Convert text to lowercase.")
    vocab_size: int = Field(0, ge=0, description="Largest number of tokens (0: all, or 8000 subwords).")
    min_count: int = Field(1, ge=1, description="Tokens that occur less often become <unk> (not for unigram).")
    algorithm: Literal["bpe", "unigram"] = Field("bpe", description="Subword algorithm: byte-level BPE or unigram.")

    def measure(self, text: str) -> int:
        """The approximate number of tokens of a text, before anything is fitted; subwords count as words."""
        if self.unit == "characters":
            return len(text)
        if self.split == "lines" and self.unit == "words":
            return len(split_lines(text))
        return len(text.split()) if self._whitespace_only else count_words(text)

    @property
    def measured_unit(self) -> str:
        """What ``measure`` counts."""
        return "characters" if self.unit == "characters" else "words"

    def cut(self, text: str, length: int) -> Iterator[str]:
        """The text in parts of ``length`` tokens, as ``measure`` counts them."""
        if self.unit == "characters":
            return (text[start : start + length] for start in range(0, len(text), length))
        if self._whitespace_only:
            words = text.split()
            return (" ".join(words[start : start + length]) for start in range(0, len(words), length))
        if self.split == "lines" and self.unit == "words":
            tokens = split_lines(text)
            return (join_lines(tokens[start : start + length]) for start in range(0, len(tokens), length))
        return cut_words(text, length)

    @property
    def _whitespace_only(self) -> bool:
        return self.unit == "words" and self.split == "whitespace"

    @property
    def is_bpe(self) -> bool:
        """Whether tokens are subwords of byte-level BPE."""
        return self.unit == "subwords" and self.algorithm == "bpe"

    def fit(self, texts: Iterable[str], *, specials: Sequence[str] = ()) -> "Tokenizer":
        """Build the vocabulary from texts, which are read once."""
        if self.lowercase:
            texts = (text.lower() for text in texts)
        if self.unit == "subwords":
            first = (PAD, UNKNOWN, *specials)
            tokenizer = self.train_subwords(texts, (self.vocab_size or DEFAULT_SUBWORDS) - len(first), reserved=first)
            pieces = map(tokenizer.id_to_token, range(tokenizer.get_vocab_size()))
            vocabulary = Vocabulary(tokens=(*first, *(piece for piece in pieces if piece not in first)))
            serialized = tokenizer.to_str()
        else:
            counts: Counter[str] = Counter()
            for text in texts:
                counts.update(_words(text, self.split) if self.unit == "words" else text)
            for name in RESERVED:
                counts.pop(name, None)
            vocabulary = vocabulary_from_counts(
                counts, size=self.vocab_size, min_count=self.min_count, specials=specials
            )
            serialized = ""
        return Tokenizer(
            unit=self.unit,
            split=self.split,
            lowercase=self.lowercase,
            vocabulary=vocabulary,
            specials=tuple(specials),
            tokenizer=serialized,
        )

    def train_subwords(self, texts: Iterable[str], size: int, *, reserved: Sequence[str]) -> Any:
        """A trained tokenizer of the tokenizers library with at most ``size`` pieces."""
        from tokenizers import models, pre_tokenizers, trainers

        if self.algorithm == "bpe":
            alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
            if size < len(alphabet):
                raise ValueError(
                    f"vocab_size leaves room for {size} subwords, but BPE needs one for each of the 256 bytes"
                )
            tokenizer = byte_level(models.BPE())
            trainer = trainers.BpeTrainer(
                vocab_size=size, min_frequency=self.min_count, initial_alphabet=alphabet, show_progress=False
            )
            tokenizer.train_from_iterator(texts, trainer=trainer)
            return tokenizer
        if size < 1:
            raise ValueError(f"vocab_size leaves room for {size} subwords; set it to more than {len(reserved)}")
        empty = metaspace(models.Unigram())
        normalize, split = empty.normalizer.normalize_str, empty.pre_tokenizer.pre_tokenize_str
        words = Counter(word for text in texts for word, _ in split(normalize(text)))
        return metaspace(
            models.Unigram([(UNKNOWN, 0.0), *train_unigram(words, size=size, reserved=reserved)], unk_id=0)
        )


class Tokenizer(ConfigSection):
    """A fitted tokenizer: text → ids → text."""

    unit: Unit
    split: Split = "whitespace"
    lowercase: bool
    vocabulary: Vocabulary
    specials: tuple[str, ...] = ()  # in the vocabulary after <pad> and <unk>
    tokenizer: str = ""  # JSON of the tokenizers library, for subwords

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.vocabulary.tokens[2 : 2 + len(self.specials)] != self.specials:
            raise ValueError("expected the special tokens after <pad> and <unk> in the vocabulary")
        if self.unit == "subwords":
            self.library  # noqa: B018  raises ValueError if it cannot be used
        return self

    @cached_property
    def library(self) -> Any:
        return parse_subwords(self.tokenizer)

    @cached_property
    def ids(self) -> dict[str, int]:
        """Ids of the tokens that may occur in a text."""
        return {token: index for token, index in self.vocabulary.ids.items() if token not in RESERVED}

    @cached_property
    def from_library(self) -> list[int]:
        """The id in the vocabulary for each id of the library."""
        return self.vocabulary.encode(map(self.library.id_to_token, range(self.library.get_vocab_size())))

    @cached_property
    def to_library(self) -> dict[int, int]:
        """The id of the library for each id in the vocabulary."""
        return {index: library_id for library_id, index in enumerate(self.from_library)}

    @cached_property
    def has_line_breaks(self) -> bool:
        """Whether the texts of the training data have several lines, as far as the tokens show it."""
        if self.unit == "words":
            return self.split == "lines"
        return any("\n" in self.readable(token) for token in self.vocabulary.tokens if token != NEWLINE_BYTE)

    def tokens(self, text: str) -> list[str]:
        """The tokens of a text, known or not."""
        if self.lowercase:
            text = text.lower()
        if self.unit == "subwords":
            pieces: list[str] = self.library.encode(text).tokens
            return pieces
        return _words(text, self.split) if self.unit == "words" else list(text)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each token in a text, which is in lowercase already if the tokenizer converts it."""
        if self.unit == "subwords":
            offsets: list[tuple[int, int]] = self.library.encode(text).offsets
            return offsets
        spans: list[tuple[int, int]] = []
        for token in self.tokens(text):
            start = text.index(token, spans[-1][1] if spans else 0)
            spans.append((start, start + len(token)))
        return spans

    def cased_tokens(self, text: str) -> list[str]:
        """The tokens of a text in their original case, if there are as many."""
        if not self.lowercase or self.unit == "subwords":
            return self.tokens(text)
        cased, tokens = _words(text, self.split) if self.unit == "words" else list(text), self.tokens(text)
        return cased if len(cased) == len(tokens) else tokens  # İ has two characters in lowercase

    def readable(self, token: str) -> str:
        """A token as it appears in a text; subwords store spaces and bytes as other characters."""
        if self.unit != "subwords" or token in (*RESERVED, UNKNOWN):
            return token
        return token.replace("▁", " ") if "▁" in token else self.decode([self.vocabulary.index(token)]) or token

    def unknown_tokens(self, text: str) -> list[str]:
        """The tokens of a text that are not in the vocabulary, each once."""
        if self.unit == "subwords":
            unknown = self.vocabulary.index(UNKNOWN)
            pairs = zip(self.tokens(text), self.encode(text), strict=True)
            return list(dict.fromkeys(token for token, index in pairs if index == unknown))
        known = self.ids
        return list(dict.fromkeys(token for token in self.tokens(text) if token not in known))

    def describe_unknown(self, text: str) -> str:
        """That nothing of a text is in the vocabulary; empty: some of it is, or it is empty."""
        unknown = set(self.unknown_tokens(text))
        if not unknown or not unknown.issuperset(self.tokens(text)):
            return ""
        noun = {"words": "word", "characters": "character"}.get(self.unit, "token")
        return f"no {noun} of the text occurs in the training data, so that the answer does not depend on it"

    def describe_prompt(self, text: str) -> str:
        """Which tokens of the lines of a prompt are not in the vocabulary; empty: none."""
        unknown = list(dict.fromkeys(token for line in text.split("\n") for token in self.unknown_tokens(line)))
        return f"the prompt contains tokens that the model does not know: {quote_names(unknown)}" if unknown else ""

    def encode(self, text: str) -> list[int]:
        if self.unit == "subwords":
            ids = self.from_library
            return [ids[index] for index in self.library.encode(text.lower() if self.lowercase else text).ids]
        find = self.ids.get
        return [find(token, 1) for token in self.tokens(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text without padding and special tokens; unknown characters become the replacement character."""
        kept = self._without_specials(ids)
        if self.unit == "subwords":
            library_ids = [self.to_library[index] for index in kept if index in self.to_library]  # BPE has no <unk>
            text: str = self.library.decode(library_ids, skip_special_tokens=False)
            return text
        tokens = self.vocabulary.decode(kept)
        if self.unit == "words":
            if self.split == "lines":
                return join_lines(tokens)
            return join_words(tokens) if self.split == "punctuation" else " ".join(tokens)
        return "".join("\ufffd" if token == UNKNOWN else token for token in tokens)

    def _without_specials(self, ids: Iterable[int]) -> Iterator[int]:
        last = 1 + len(self.specials)
        return (index for index in ids if index == 1 or index > last)
