"""The inputs and answers of a classifier as arrays, with which its exports are compared."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.labelled import LabelledSequence

if TYPE_CHECKING:
    from seqloom.tasks.classify.classify import Classify


def expected(task: "Classify", model: Any, examples: Sequence[LabelledSequence]) -> dict[str, NDArray[Any]]:
    """The probabilities of the labels, or the numbers."""
    outputs, scale = model(*task.collate(examples).inputs).detach().double(), task.fitted.scale
    if scale is None:
        return {"probabilities": outputs.softmax(dim=1).numpy()}
    return {"numbers": outputs.numpy() * np.array(scale.deviations) + np.array(scale.means)}


def units(task: "Classify") -> dict[str, NDArray[Any]]:
    """The deviations of answers in the units of the data."""
    scale = task.fitted.scale
    return {} if scale is None else {"numbers": np.array(scale.deviations)}


def signal_values(task: "Classify", examples: Sequence[LabelledSequence]) -> list[NDArray[Any]]:
    """Inputs that are no texts, unscaled."""
    return [np.asarray(task.signal_values(example)) for example in examples]
