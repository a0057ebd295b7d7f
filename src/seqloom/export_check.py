"""What all exports of models share: inputs and answers as arrays, and the check that the answers are the same."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 1e-5
"""Largest difference between an answer of the exported model and of the model, relative to numbers above 1: float32
rounds to 6e-8, and a few hundred operations on a sequence add up."""
Arrays = Mapping[str, NDArray[Any]]


class ExportError(ValueError):
    """A model, or a part of it, that cannot be exported."""


class ExportCheck(NamedTuple):
    """The comparison of an exported model with the original."""

    examples: int
    difference: float  # the largest, relative to numbers above 1
    size: int  # of the file in bytes
    target: str = ""  # the processor of a compiled model, if this machine cannot run its code

    def __str__(self) -> str:
        return f"{self.examples:,} examples, largest difference {self.difference:.1e}"


def require_equal(name: str, answer: NDArray[Any], expected: NDArray[Any], examples: Sequence[Any]) -> float:
    """The largest difference; ExportError if it exceeds the tolerance."""
    difference = relative_difference(answer, expected)
    if not difference <= TOLERANCE:  # not: NaN
        where = getattr(examples[0], "location", "")
        raise ExportError(
            f"the exported model does not compute what the run does: {name} differs by {difference:.1e}, more "
            f"than {TOLERANCE:.0e}, from the example {where} on; nothing was written"
        )
    return difference


def relative_difference(answer: NDArray[Any], expected: NDArray[Any]) -> float:
    """The largest difference, relative to numbers above 1; infinite if shapes or NaNs differ."""
    if answer.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    answer, expected = answer.astype(np.float64), expected.astype(np.float64)
    same = (answer == expected) | (np.isnan(answer) & np.isnan(expected))  # infinities of one sign, too
    with np.errstate(invalid="ignore"):
        differences = np.where(same, 0.0, np.abs(answer - expected) / np.maximum(np.abs(expected), 1))
    return float(np.where(np.isnan(differences), np.inf, differences).max())


def padded_vectors(rows: Sequence[NDArray[np.float64]]) -> dict[str, NDArray[Any]]:
    """Sequences of vectors as ``values``, padded with NaN, on which no answer may depend, and their ``lengths``."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    values = np.full((len(rows), max(1, lengths.max(initial=1)), rows[0].shape[1]), np.nan)
    for index, row in enumerate(rows):
        values[index, : len(row)] = row
    return {"values": values, "lengths": lengths}


def feed_tokens(collate: Callable[[Sequence[Any]], Any], examples: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """The tokens of examples as ``tokens``, padded with 0, and their ``lengths``."""
    values, mask = collate(examples).inputs
    return {"tokens": values.numpy(), "lengths": mask.sum(dim=1).numpy()}


def padded_samples(rows: Sequence[NDArray[np.float32]]) -> dict[str, NDArray[Any]]:
    """Recordings as ``samples``, padded with NaN, on which no answer may depend, and their ``lengths``."""
    padded = padded_vectors([np.asarray(row, np.float64)[:, np.newaxis] for row in rows])
    return {"samples": padded["values"][:, :, 0].astype(np.float32), "lengths": padded["lengths"]}
