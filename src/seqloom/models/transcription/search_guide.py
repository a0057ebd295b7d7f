"""What guides the search for a transcript: a dictionary and a language model, in the numbers of the symbols at hand."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field
from torch import nn

from seqloom.config import ConfigSection
from seqloom.data.readers.pronunciations import Entry, read_pronunciations
from seqloom.data.readers.text_files import DataError, resolve
from seqloom.data.text.tokenizers import RESERVED, Tokenizer, Unit
from seqloom.data.text.vocabulary import END
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import Language, NGramLanguage, StepLanguage
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.layers.embedding import UNKNOWN
from seqloom.models.decoder import step
from seqloom.models.ngram.arpa import START, UNKNOWNS, read_arpa, spell
from seqloom.models.ngram.ngram_decoder import NGramDecoder

LARGE = 10_000
"""Spellings from which on a lexicon is kept in the user's cache."""


class LanguageModelConfig(ConfigSection):
    """A language model that the search listens to, and what words are worth."""

    model: str = Field(
        default="",
        description="An .arpa file, or the folder of a run of a language model: of words where there is a lexicon, "
        "otherwise of the symbols; empty: none.",
    )
    weight: float = Field(default=1.0, ge=0, description="Of its logarithms of probabilities.")
    word_score: float = Field(default=0.0, description="For each word; where there is no lexicon, for each symbol.")
    unk_score: float = Field(default=0.0, description="For each word that the language model does not know.")


class LoadedLanguageModel(NamedTuple):
    """A language model of ours: its symbols, and its decoder."""

    encoding: Tokenizer
    decoder: nn.Module


def build_guide(
    encoding: Tokenizer,  # of the transcriber's symbols
    words: str,  # file of a dictionary; empty: none
    wish: LanguageModelConfig,
    *,
    file_encoding: str,
    opener: Callable[[Path], LoadedLanguageModel],  # of the folder of a run
) -> Guide | None:
    """All that is known beside the recording; None: nothing."""
    if not (words or wish.model or wish.word_score):
        return None
    known = speech = None
    if words:
        path = resolve(words)
        known = load_lexicon(read_pronunciations(path, encoding=file_encoding), encoding, name=words)
    if wish.model:
        path = resolve(wish.model)
        model = opener(path) if path.is_dir() else path
        names = known.words if known else encoding.vocabulary.symbols
        speech = load_language_model(model, names, unit="words" if known else encoding.unit, name=wish.model)
    return Guide(known, speech, weight=wish.weight, bonus=wish.word_score, unknown=wish.unk_score)


def load_lexicon(entries: Iterable[Entry], encoding: Tokenizer, *, name: str) -> Lexicon:
    """The words of a dictionary whose symbols are all known; ``name`` is that of its file."""
    found = list(_spellings(entries, encoding))
    if not found:
        raise DataError(name, "holds no word whose symbols all occur in the training data")
    build = Lexicon.cached if len(found) > LARGE else Lexicon
    return build(found, separator=_separator(encoding))


def _spellings(entries: Iterable[Entry], encoding: Tokenizer) -> Iterator[tuple[str, list[int]]]:
    given = list(entries)
    # A dictionary of sounds tells a model of letters its words, and nothing about their letters.
    sounds = encoding.unit != "words" and any(len(symbol) > 1 for entry in given for symbol in entry.spelling)
    for entry in given:
        word = entry.word.lower() if encoding.lowercase else entry.word
        for numbers in spellings(entry._replace(spelling=()) if sounds else entry, encoding):
            if numbers and UNKNOWN not in numbers:
                yield word, numbers


def spellings(entry: Entry, encoding: Tokenizer) -> list[list[int]]:
    """The numbers of a word's symbols; of subwords those at the start of a text, and those behind a blank."""
    if entry.spelling and encoding.unit == "words":
        return [encoding.encode(" ".join(entry.spelling))]
    text = "".join(entry.spelling) or entry.word
    first = encoding.encode(text)
    behind = encoding.encode(f" {text}") if encoding.unit == "subwords" else first
    return [first] if first == behind else [first, behind]


def _separator(encoding: Tokenizer) -> int | None:
    """What stands between words: a blank among characters, if the training texts have any."""
    return encoding.numbers.get(" ") if encoding.unit == "characters" else None


def load_language_model(
    model: Path | LoadedLanguageModel,  # an ARPA file, or a language model of ours
    names: Sequence[str],  # of the lexicon's words; where there is none, of the symbols
    *,
    unit: Unit,  # what they are
    name: str,  # of the model, for errors
) -> Language:
    """The language model as a search sees it."""
    if isinstance(model, Path):
        ngram, words = read_arpa(model)
        known = {word: number for number, word in enumerate(words) if word not in (START, END)}
        unknown = next((known.pop(word) for word in UNKNOWNS if word in known), None)
        return NGramLanguage(ngram, numbers=_numbers(spell(names), known, name=name), unknown=unknown)
    encoding, decoder = model
    if encoding.unit != unit:
        raise ValueError(f"{name}: is a language model of {encoding.unit}; here {unit} are said")
    numbers = _numbers(names, encoding.numbers, name=name)
    if isinstance(decoder, NGramDecoder):
        return NGramLanguage(decoder.counted, numbers=numbers, unknown=UNKNOWN)
    module: Any = decoder.eval()
    end = encoding.vocabulary.index(END)
    state = module.start(None, 1)
    return StepLanguage(partial(step, module), state, start=end, end=end, numbers=numbers, unknown=UNKNOWN)


def _numbers(names: Sequence[str], known: dict[str, int], *, name: str) -> list[int]:
    """Of each name in the language model, -1 where it does not know it."""
    unknown = (*RESERVED, *UNKNOWNS)
    found = [-1 if each in unknown else known.get(each, -1) for each in names]
    if max(found, default=-1) < 0:
        shown = ", ".join(repr(each) for each in names if each not in unknown)
        raise ValueError(f"{name}: the language model knows none of {shown:.80}")
    return found
