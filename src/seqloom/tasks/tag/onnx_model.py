"""Taggers as ONNX graphs."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from seqloom.data.readers.sentences import TaggedSequence
from seqloom.export_check import ExportError, padded_vectors
from seqloom.layers.audio.spectrum import Spectrum
from seqloom.models.character_encoder import MAX_CHARACTERS
from seqloom.models.pretrained.combined import CombinedEmbedding, CombinedInput
from seqloom.models.tagger import VideoEmbedding
from seqloom.onnx import models
from seqloom.onnx.audio import spectrum_input
from seqloom.onnx.exported import OnnxModel
from seqloom.onnx.graph import Graph, Value
from seqloom.onnx.images import padded_frames, video_input
from seqloom.onnx.inputs import Scale, scaled, vector_input, word_input
from seqloom.onnx.modules import Rows
from seqloom.onnx.pretrained import describe_pretrained, feed_combined
from seqloom.onnx.search import ModelInput
from seqloom.onnx.signals import sound_description
from seqloom.tasks.tag.export_answers import (
    expected,
    feed_sound,
    sound_spectrum,
    units,
    vector_values,
    word_arrays,
)

if TYPE_CHECKING:
    from seqloom.tasks.tag.tag import Tag


def onnx_model(task: "Tag", model: Any) -> OnnxModel:
    """A tagger of words, vectors, sound or videos."""
    learned, scale = task.fitted, task.fitted.scale
    if task.is_counting_model:
        raise ExportError('a tagger with task.model = "hmm" cannot be exported to ONNX')
    entry = _input(task, model)
    output: dict[str, Any] = {"kind": "tags", "labels": learned.labels.names}
    if entry.description["kind"] == "sound":
        output["step_seconds"] = entry.description["hop"] / entry.description["rate"]
    if scale is None:
        graph = models.tagger(model, entry.embed)
    else:
        graph = models.step_regressor(model, entry.embed, scale=(scale.means, scale.deviations))
        output = {"kind": "step_numbers", "names": scale.names, "deviations": scale.deviations}

    description = {"task": task.name, "input": entry.description, "output": output}
    return OnnxModel(graph, description, entry.feed, partial(expected, task, model), units=units(task))


def _input(task: "Tag", model: Any) -> ModelInput:
    """How inputs enter the graph."""
    learned = task.fitted
    embed: Any = model.encoder.embed
    if learned.words is not None and learned.characters is not None:
        own = embed.own if isinstance(embed, CombinedEmbedding) else embed
        reads = own is not None and own.characters is not None
        description = {
            "kind": "words",
            "vocabulary": learned.words.tokens,
            "lowercase": task.words.lowercase,
            "characters": learned.characters.tokens if reads else None,
            "max_characters": MAX_CHARACTERS,
            "features": [
                {"column": str(column), "values": vocabulary.tokens}
                for column, vocabulary in zip(task.feature_columns, learned.features, strict=True)
            ],
            **describe_pretrained(learned.vectors),
        }
        words = partial(word_input, embed=embed, characters=MAX_CHARACTERS if reads else 0)
        return ModelInput(words, description, partial(_feed_words, task, embed))
    scale = learned.mean, learned.deviation
    if isinstance(embed, VideoEmbedding):
        video = {"kind": "video", "size": task.image_size, "resize": task.resize}
        images: Any = embed.images
        frames = partial(video_input, images=images, size=task.image_size, scale=scale)
        return ModelInput(frames, video, lambda examples: padded_frames(vector_values(learned, examples)))
    if (spectrum := sound_spectrum(task, learned)) is not None:
        sound = partial(_sound, spectrum=spectrum, scale=scale)
        return ModelInput(sound, sound_description(spectrum), partial(feed_sound, task))
    description = {"kind": "vectors", "size": learned.size, "channels": learned.channel_names}
    vectors = partial(vector_input, size=learned.size, scale=scale)
    return ModelInput(vectors, description, lambda examples: padded_vectors(vector_values(learned, examples)))


def _feed_words(task: "Tag", embed: Any, examples: Sequence[TaggedSequence]) -> dict[str, NDArray[Any]]:
    inputs = task.collate(examples).inputs
    if not isinstance(inputs, CombinedInput):
        return word_arrays(inputs)
    return {**word_arrays(inputs.own), **feed_combined(embed, inputs)}


def _sound(graph: Graph, spectrum: Spectrum, scale: Scale) -> tuple[Value, Rows]:
    frames, rows = spectrum_input(graph, spectrum)
    return rows.clear_padding(scaled(frames, scale)), rows
