"""Symbols as a person reads them: of a text that a model reads, of what it says, and of a search."""

from typing import Any

from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import END, UNKNOWN
from seqloom.decoding.tokens.search_record import SearchRecord
from seqloom.insight.beam import Branch


def readable(encoding: Tokenizer, name: str, number: int) -> str:
    """A symbol as it stands in a text; subwords have letters of their own for blanks and bytes."""
    if encoding.unit != "subwords" or name == END:
        return name
    return name.replace("▁", " ") if "▁" in name else encoding.decode([number]) or name


def pieces(encoding: Tokenizer, text: str, remarks: list[str]) -> list[str]:
    """The symbols of a text as they are written; what the model does not know is remarked."""
    numbers, names = encoding.encode(text), encoding.tokens(text)
    unknown = encoding.vocabulary.index(UNKNOWN)
    if strange := [name for name, number in zip(names, numbers, strict=True) if number == unknown]:
        shown = ", ".join(repr(name) for name in dict.fromkeys(strange))
        remarks.append(f"the model does not know {shown}: it reads {UNKNOWN} instead")
    return [readable(encoding, name, number) for name, number in zip(names, numbers, strict=True)]


def steps(
    encoding: Tokenizer,
    candidate: Any,  # with symbols and log_probabilities, one more of them where it has ended
) -> tuple[list[str], list[int]]:
    """What was said at each step, and what the decoder read before it: the end of what came before, then itself."""
    vocabulary = encoding.vocabulary
    numbers = vocabulary.encode(candidate.symbols)
    said = [readable(encoding, name, number) for name, number in zip(candidate.symbols, numbers, strict=True)]
    ended = len(candidate.log_probabilities) > len(candidate.symbols)
    fed = [vocabulary.index(END), *numbers]
    return ([*said, END], fed) if ended else (said, fed[: len(said)])


def branches(record: SearchRecord, encoding: Tokenizer) -> list[Branch]:
    """What a search has noted of the first row."""
    found = []
    for number, parent, _, symbol, length, log_probability, score, fate in record.nodes(0):
        name = readable(encoding, encoding.vocabulary.symbols[symbol], symbol) if symbol >= 0 else ""
        found.append(Branch(number, parent, name, length, log_probability, score, fate.name.lower()))
    return found
