"""The guide of a transcript search: a lexicon and a language model, mapped to the tokens of the transcriber."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from pydantic import Field

from seqloom.config import ConfigSection, parse_section
from seqloom.data.readers.pronunciations import Entry, read_pronunciations
from seqloom.data.readers.text_files import DataError, pluralize, resolve
from seqloom.data.text.tokenizers import RESERVED, Tokenizer, Unit
from seqloom.data.text.vocabulary import END
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import LM, NGramLM
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.layers.embedding import UNKNOWN
from seqloom.models.ngram.arpa import START, UNKNOWN_WORDS, read_arpa, to_arpa_words

SHOWN_WORDS = 5  # in the note about words that cannot be spelt
MIN_CACHED = 10_000
"""Lexica with more spellings than this are cached in the user's cache folder."""


class LanguageModelConfig(ConfigSection):
    """External language model of the search, and scores for words."""

    model: str = Field(
        default="",
        description="An .arpa file or the run of a language model: of words with a lexicon, of tokens without one "
        "(empty: no language model).",
    )
    weight: float = Field(default=1.0, ge=0, description="Weight of the language model's log-probabilities.")
    word_score: float = Field(
        default=0.0,
        description="Score added for each word, or for each token without a lexicon; with search.length_penalty, "
        "before the division.",
    )
    unk_score: float = Field(
        default=0.0, description="Score added for each word that the language model does not know."
    )
    method: Literal["fusion", "rescore"] = Field(
        default="fusion",
        description="fusion: in the search; rescore: afterwards, to reorder the hypotheses of a beam or prefix_beam "
        "(search.size) by the language model and the word scores.",
    )

    def check(self, search: ConfigSection) -> None:
        """ValueError if a search cannot use these scores."""
        if not self.model or self.method != "rescore":
            return
        if (name := getattr(search, "name", "")) not in ("beam", "prefix_beam"):
            raise ValueError(
                f'lm.method = "rescore" needs an n-best list, that of search "beam" (or "prefix_beam" with CTC), '
                f'found "{name}"'
            )
        if lag := getattr(search, "lag", 0):
            raise ValueError(
                f'lm.method = "rescore" reorders whole transcripts, but search.lag = {lag} is for streams: '
                'remove search.lag, or set lm.method to "fusion"'
            )

    def notes(self, search: ConfigSection) -> tuple[str, ...]:
        """A sentence about a word score that a length penalty takes back."""
        penalty = getattr(search, "length_penalty", "none")
        if not self.word_score or penalty == "none":
            return ()
        effect = f'lm.word_score = {self.word_score:g} has little effect with search.length_penalty = "{penalty}"'
        return (f'{effect}, which divides the score by the length: set it to "none"',)


def parse_language_model(text: str) -> LanguageModelConfig:
    """The configuration that an option such as ``words.arpa weight=0.8`` describes."""
    model, pairs = text.strip(), list[str]()
    while match := re.search(r"(?:^|\s+)(\w+=\S+)$", model):  # a file name may contain spaces
        model, pairs = model[: match.start()], [match[1], *pairs]
    return parse_section(LanguageModelConfig, "lm", pairs, **({"model": model} if model else {}))


class SearchableDecoder(Protocol):
    """A decoder that can be the language model of a search over frames."""

    def search_lm(self, *, end: int, vocabulary_ids: Sequence[int]) -> LM: ...


class LoadedLanguageModel(NamedTuple):
    """The language model of a run: its tokenizer and its decoder."""

    tokenizer: Tokenizer
    decoder: SearchableDecoder


def build_guide(
    tokenizer: Tokenizer,  # of the transcriber
    lexicon_file: str,  # empty: no lexicon
    config: LanguageModelConfig,
    *,
    search: ConfigSection,
    file_encoding: str,
    load_run: Callable[[Path], LoadedLanguageModel],
) -> Guide | None:
    """The lexicon and the language model of a search; None if there is neither."""
    if not (lexicon_file or config.model or config.word_score):
        return None
    lexicon = lm = None
    notes = config.notes(search)
    if lexicon_file:
        entries = list(read_pronunciations(resolve(lexicon_file), encoding=file_encoding))
        lexicon = load_lexicon(entries, tokenizer, name=lexicon_file)
        notes += tuple(filter(None, [missing_words(entries, lexicon, tokenizer, name=lexicon_file)]))
    if config.model:
        path = resolve(config.model, may_be_run=True)
        model = load_run(path) if path.is_dir() else path
        names = lexicon.words if lexicon else tokenizer.vocabulary.tokens
        lm = load_language_model(model, names, unit="words" if lexicon else tokenizer.unit, name=config.model)
    return Guide(lexicon, lm, config.weight, config.word_score, config.unk_score, config.method == "rescore", notes)


def load_lexicon(entries: Iterable[Entry], tokenizer: Tokenizer, *, name: str) -> Lexicon:
    """The words of a pronunciation dictionary whose tokens are all known; ``name`` is its file."""
    pairs = list(_known_spellings(entries, tokenizer))
    if not pairs:
        raise DataError(name, "no word consists of tokens that occur in the training data")
    build = Lexicon.cached if len(pairs) > MIN_CACHED else Lexicon
    return build(pairs, separator=_separator(tokenizer))


def missing_words(entries: Sequence[Entry], lexicon: Lexicon, tokenizer: Tokenizer, *, name: str) -> str:
    """A sentence about the words that cannot be found, since they contain tokens that the model does not have."""
    known = set(lexicon.words)
    missing: dict[str, list[str]] = {}
    for entry in _searched(entries, tokenizer):
        if entry.word not in known and entry.word not in missing:
            text = " ".join(entry.spelling) if tokenizer.unit == "words" and entry.spelling else entry.word
            missing[entry.word] = tokenizer.unknown_tokens(text) if len(missing) < SHOWN_WORDS else []
    if not missing:
        return ""
    shown = [
        f"{word!r}" + (f" ({', '.join(map(repr, tokens))})" if tokens and tokens != [word] else "")
        for word, tokens in list(missing.items())[:SHOWN_WORDS]
    ]
    more = f" and {len(missing) - SHOWN_WORDS:,} more" if len(missing) > SHOWN_WORDS else ""
    total = len(known) + len(missing)
    return (
        f"{name}: {len(missing):,} of {pluralize(total, 'word')} cannot be spelt with the tokens of the model "
        f"and will not be found: {', '.join(shown)}{more}"
    )


def _searched(entries: Sequence[Entry], tokenizer: Tokenizer) -> Iterator[Entry]:
    """The entries as the search reads them: in the case of the model, and with spellings only if they are its own."""
    # For a model of letters, a dictionary of phones provides the words, but not their spelling.
    phones = tokenizer.unit != "words" and any(len(symbol) > 1 for entry in entries for symbol in entry.spelling)
    for entry in entries:
        word = entry.word.lower() if tokenizer.lowercase else entry.word
        yield entry._replace(word=word, spelling=() if phones else entry.spelling)


def _known_spellings(entries: Iterable[Entry], tokenizer: Tokenizer) -> Iterator[tuple[str, list[int]]]:
    for entry in _searched(list(entries), tokenizer):
        for ids in spellings(entry, tokenizer):
            if ids and UNKNOWN not in ids:
                yield entry.word, ids


def spellings(entry: Entry, tokenizer: Tokenizer) -> list[list[int]]:
    """The token ids of a word; for subwords, both at the start of a text and after a space."""
    if entry.spelling and tokenizer.unit == "words":
        return [tokenizer.encode(" ".join(entry.spelling))]
    text = "".join(entry.spelling) or entry.word
    at_start = tokenizer.encode(text)
    after_space = tokenizer.encode(f" {text}") if tokenizer.unit == "subwords" else at_start
    return [at_start] if at_start == after_space else [at_start, after_space]


def _separator(tokenizer: Tokenizer) -> int | None:
    """The token between words: the space of a model of characters, if the training texts contain any."""
    return tokenizer.ids.get(" ") if tokenizer.unit == "characters" else None


def load_language_model(
    model: Path | LoadedLanguageModel,  # an ARPA file, or the language model of a run
    names: Sequence[str],  # the lexicon's words; without a lexicon, the tokens
    *,
    unit: Unit,  # of the names
    name: str,  # of the model, for error messages
) -> LM:
    """The language model as a search reads it."""
    if isinstance(model, Path):
        ngram, words = read_arpa(model)
        known = {word: index for index, word in enumerate(words) if word not in (START, END)}
        unknown = next((known.pop(word) for word in UNKNOWN_WORDS if word in known), None)
        return NGramLM(ngram, vocabulary_ids=_vocabulary_ids(to_arpa_words(names), known, name=name), unknown=unknown)
    tokenizer, decoder = model
    if tokenizer.unit != unit:
        raise ValueError(f"{name}: expected a language model of {unit}, found one of {tokenizer.unit}")
    ids = _vocabulary_ids(names, tokenizer.ids, name=name)
    return decoder.search_lm(end=tokenizer.vocabulary.index(END), vocabulary_ids=ids)


def _vocabulary_ids(names: Sequence[str], known: dict[str, int], *, name: str) -> list[int]:
    """The id of each name in the language model, -1 if it is unknown there."""
    reserved = (*RESERVED, *UNKNOWN_WORDS)
    ids = [-1 if word in reserved else known.get(word, -1) for word in names]
    if max(ids, default=-1) < 0:
        examples = ", ".join(repr(word) for word in names if word not in reserved)
        raise ValueError(f"{name}: the language model knows none of {examples:.80}")
    return ids
