"""A sentence: words, or vectors in their place, with a label for each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from seqloom.data.feature_statistics import compact
from seqloom.data.readers.numeric_targets import Numbers, as_target, to_number
from seqloom.data.readers.text_files import DataError, Location
from seqloom.data.readers.vectors import VectorSequence


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words, with their labels if known."""

    location: Location  # location of the first word
    words: tuple[str, ...]
    labels: tuple[str, ...] | None = None
    lines: Sequence[int] = ()  # line of each word; empty if all are on one line
    target: Numbers | None = None  # (T, K), numbers in place of the labels
    features: tuple[tuple[str, ...], ...] = ()  # further columns that the model reads, one value per word each

    def __len__(self) -> int:
        return len(self.words)

    def at(self, word: int) -> Location:
        return self.location._replace(line=self.lines[word]) if self.lines else self.location


TaggedSequence = Sentence | VectorSequence
Tagged = TypeVar("Tagged", Sentence, VectorSequence)


def with_labels(sentence: Tagged, labels: Sequence[tuple[Location, Any]]) -> Tagged:
    """A sentence with the labels, or the numbers, of its words, if they have any."""
    targets = [as_target(location, value, name="label") for location, value in labels]
    known = [target for target in targets if target is not None]
    if known and len(known) < len(targets):
        location = labels[[target is None for target in targets].index(True)][0]
        raise DataError(location, "the label of a word is missing, but others of this sentence have one")
    if not known:
        return sentence
    names = tuple(target for target in known if isinstance(target, str))
    if len(names) == len(known):
        return replace(sentence, labels=names)
    return replace(sentence, target=np.stack([to_number(sentence.location, target) for target in known]))


def array_of(location: Location, item: Any) -> NDArray[np.floating[Any]]:
    """The vectors of a sequence from Python values, as an array (T, D)."""
    try:
        values = np.asarray(item, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            location, f"expected a string, a list of words or an array (T, D), found {type(item).__name__}"
        ) from None
    if values.ndim != 2 or not np.isfinite(values).all():
        raise DataError(location, f"expected finite numbers (T, D), found an array {values.shape}")
    return compact(values)
