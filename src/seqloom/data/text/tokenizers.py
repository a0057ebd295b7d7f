"""Text ↔ numbers: characters, words, or subwords learnt from the text (Sennrich et al. 2016, Kudo 2018)."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal

from pydantic import Field

from seqloom.config import ConfigSection
from seqloom.data.text.unigram import learn
from seqloom.data.text.vocabulary import END, PAD, START, UNKNOWN, Vocabulary, ranked

# The library's threads do not survive a fork, and give sums of another order each time.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

SUBWORDS = 8000  # the size where none is asked for
RESERVED = (PAD, START, END)  # a word of the text that is spelt so is unknown
Unit = Literal["characters", "words", "subwords"]


class TextConfig(ConfigSection):
    """How text is cut into symbols."""

    unit: Unit = Field("words", description="What a symbol is; words stand between blanks.")
    lowercase: bool = Field(default=False, description="Whether capital letters are made small.")
    vocab_size: int = Field(0, ge=0, description="Largest number of symbols; 0: all, or 8000 subwords.")
    min_count: int = Field(
        1, ge=1, description="How often a symbol occurs at least; rarer ones are <unk> (not for unigram)."
    )
    algorithm: Literal["bpe", "unigram"] = Field("bpe", description="How subwords are found: bpe (bytes) or unigram.")

    def fit(self, texts: Iterable[str], *, specials: Sequence[str] = ()) -> "Tokenizer":
        """Learn the symbols from texts, which are read once."""
        if self.lowercase:
            texts = (text.lower() for text in texts)
        if self.unit == "subwords":
            first = (PAD, UNKNOWN, *specials)
            tokenizer = self.train(texts, (self.vocab_size or SUBWORDS) - len(first), reserved=first)
            pieces = map(tokenizer.id_to_token, range(tokenizer.get_vocab_size()))
            vocabulary = Vocabulary(symbols=(*first, *(piece for piece in pieces if piece not in first)))
            learnt = tokenizer.to_str()
        else:
            counts: Counter[str] = Counter()
            for text in texts:
                counts.update(text.split() if self.unit == "words" else text)
            for name in RESERVED:
                counts.pop(name, None)
            vocabulary = ranked(counts, size=self.vocab_size, minimum=self.min_count, specials=specials)
            learnt = ""
        return Tokenizer(
            unit=self.unit, lowercase=self.lowercase, vocabulary=vocabulary, specials=tuple(specials), tokenizer=learnt
        )

    def train(self, texts: Iterable[str], size: int, *, reserved: Sequence[str]) -> Any:
        """A tokenizer of the library with at most ``size`` pieces."""
        from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

        if self.algorithm == "bpe":
            alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
            if size < len(alphabet):
                raise ValueError(f"size leaves room for {size} subwords; bpe needs one for each of the 256 bytes")
            tokenizer = Tokenizer(models.BPE())
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            tokenizer.decoder = decoders.ByteLevel()
            trainer = trainers.BpeTrainer(
                vocab_size=size, min_frequency=self.min_count, initial_alphabet=alphabet, show_progress=False
            )
            tokenizer.train_from_iterator(texts, trainer=trainer)
            return tokenizer
        if size < 1:
            raise ValueError(f"size leaves room for {size} subwords; more than {len(reserved)} are wanted")
        blanks = normalizers.Replace(Regex(r"\s+"), " ")
        normalizer = normalizers.Sequence([normalizers.NFKC(), blanks, normalizers.Strip()])
        splitter = pre_tokenizers.Metaspace()
        words = Counter(word for text in texts for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
        tokenizer = Tokenizer(models.Unigram([(UNKNOWN, 0.0), *learn(words, size=size, reserved=reserved)], unk_id=0))
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
        tokenizer.decoder = decoders.Metaspace()
        return tokenizer


class Tokenizer(ConfigSection):
    """The symbols that were learnt: text → numbers → text."""

    unit: Unit
    lowercase: bool
    vocabulary: Vocabulary
    specials: tuple[str, ...] = ()  # of the vocabulary, after <pad> and <unk>
    tokenizer: str = ""  # of the library, as JSON; of subwords only

    @cached_property
    def library(self) -> Any:
        from tokenizers import Tokenizer

        return Tokenizer.from_str(self.tokenizer)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Of what may stand in a text."""
        return {symbol: number for symbol, number in self.vocabulary.numbers.items() if symbol not in RESERVED}

    @cached_property
    def ours(self) -> list[int]:
        """Our number for each number of the library."""
        return self.vocabulary.encode(map(self.library.id_to_token, range(self.library.get_vocab_size())))

    @cached_property
    def theirs(self) -> dict[int, int]:
        return {ours: theirs for theirs, ours in enumerate(self.ours)}

    def tokens(self, text: str) -> list[str]:
        """The symbols of a text as they are written in it, known or not."""
        if self.lowercase:
            text = text.lower()
        if self.unit == "subwords":
            pieces: list[str] = self.library.encode(text).tokens
            return pieces
        return text.split() if self.unit == "words" else list(text)

    def written(self, text: str) -> list[str]:
        """The same with their capital letters, where they have the same number."""
        if not self.lowercase or self.unit == "subwords":
            return self.tokens(text)
        symbols, tokens = text.split() if self.unit == "words" else list(text), self.tokens(text)
        return symbols if len(symbols) == len(tokens) else tokens  # İ is two characters where it is small

    def encode(self, text: str) -> list[int]:
        if self.unit == "subwords":
            ours = self.ours
            return [ours[number] for number in self.library.encode(text.lower() if self.lowercase else text).ids]
        find = self.numbers.get
        return [find(symbol, 1) for symbol in self.tokens(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text without padding and specials; an unknown character is the replacement character."""
        kept = self.kept(ids)
        if self.unit == "subwords":
            theirs = [self.theirs[number] for number in kept if number in self.theirs]  # bytes have no <unk>
            text: str = self.library.decode(theirs, skip_special_tokens=False)
            return text
        symbols = self.vocabulary.decode(kept)
        if self.unit == "words":
            return " ".join(symbols)
        return "".join("\ufffd" if symbol == UNKNOWN else symbol for symbol in symbols)

    def kept(self, ids: Iterable[int]) -> Iterator[int]:
        last = 1 + len(self.specials)
        return (number for number in ids if number == 1 or number > last)
