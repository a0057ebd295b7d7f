"""The inputs and answers of a tagger as arrays, with which its exports are compared."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.sentences import Sentence, TaggedSequence
from seqloom.export_check import ExportError, padded_samples
from seqloom.layers.audio.spectrum import Spectrum
from seqloom.models.character_encoder import CharacterInput
from seqloom.tasks.tag.inputs import frame_values
from seqloom.tasks.tag.reading import media
from seqloom.tasks.tag.settings import Learned

if TYPE_CHECKING:
    from seqloom.tasks.tag.tag import Tag


def expected(task: "Tag", model: Any, examples: Sequence[TaggedSequence]) -> dict[str, NDArray[Any]]:
    """The best labels and their probabilities, or the numbers; 0 in the padding."""
    inputs, scale = task.collate(examples).inputs, task.fitted.scale
    emissions, _ = model(inputs)
    if scale is not None:
        numbers = emissions.detach().double().numpy() * np.array(scale.deviations) + np.array(scale.means)
        return {"numbers": np.where(inputs.mask.unsqueeze(2).numpy(), numbers, 0)}
    labels = model.decode(emissions, inputs.mask)
    probabilities = model.marginals(emissions, inputs.mask).gather(2, labels.unsqueeze(2)).squeeze(2)
    return {"labels": labels.numpy(), "probabilities": probabilities.detach().numpy()}


def units(task: "Tag") -> dict[str, NDArray[Any]]:
    """The deviations of answers in the units of the data."""
    scale = task.fitted.scale
    return {} if scale is None else {"numbers": np.array(scale.deviations)}


def vector_values(learned: Learned, examples: Sequence[TaggedSequence]) -> list[NDArray[Any]]:
    """Inputs that are vectors, unscaled."""
    return [np.asarray(frame_values(learned, example)) for example in examples]


def feed_words(task: "Tag", examples: Sequence[TaggedSequence]) -> dict[str, NDArray[Any]]:
    """Words and their characters as ids, and the lengths."""
    return word_arrays(task.collate(examples).inputs)


def word_arrays(inputs: CharacterInput) -> dict[str, NDArray[Any]]:
    """The same of words that are collated."""
    words, characters, mask = inputs
    feed = {"words": words.numpy(), "lengths": mask.sum(dim=1).numpy()}
    return feed | ({"characters": characters.long().numpy()} if characters.shape[2] else {})


def sound_spectrum(task: "Tag", learned: Learned) -> Spectrum | None:
    """The spectrum whose frames get labels; None if the inputs are vectors."""
    if not task.audio.sample_rate or learned.channel_names:
        return None
    spectrum = task.audio.spectrum(task.audio.sample_rate)
    return spectrum if spectrum.output_size == learned.size else None


def feed_sound(task: "Tag", examples: Sequence[TaggedSequence]) -> dict[str, NDArray[Any]]:
    """The samples of recordings, read again: examples hold their frames only."""
    files = media(task).files
    recordings = []
    for example in examples:
        name = "" if isinstance(example, Sentence) else example.identity
        if not name:
            raise ExportError(f"{example.location}: expected a recording, to compare the exported model on")
        (signal,) = files.load([(example.location, name)], Path(example.location.file).parent)
        recordings.append(signal.values)
    return padded_samples(recordings)
