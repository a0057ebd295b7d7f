"""Taggers as ONNX graphs."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.readers.tagged import TaggedSequence
from seqloom.models.character_encoder import MAX_CHARACTERS
from seqloom.models.hmm import HMM
from seqloom.models.pretrained.combined import CombinedEmbedding
from seqloom.models.tagger import WordEmbedding
from seqloom.onnx import models
from seqloom.onnx.exported import OnnxModel
from seqloom.onnx.graph import ExportError
from seqloom.tasks.tag.inputs import frame_values
from seqloom.tasks.tag.settings import Learned, TagSettings

if TYPE_CHECKING:
    from seqloom.tasks.tag.tag import Tag


def onnx_model(task: "Tag", model: Any) -> OnnxModel:
    """A tagger of words or vectors."""
    learned, scale = task.fitted, task.fitted.scale
    if isinstance(model, HMM):
        raise ExportError('a tagger with task.model = "hmm" cannot be exported to ONNX')
    embed, description = _input(task, learned, model)
    output: dict[str, Any] = {"kind": "tags", "labels": learned.labels.names}
    if scale is None:
        graph = models.tagger(model, embed)
    else:
        graph = models.step_regressor(model, embed, scale=(scale.means, scale.deviations))
        output = {"kind": "step_numbers", "names": scale.names, "deviations": scale.deviations}

    def expected(examples: Sequence[TaggedSequence]) -> dict[str, NDArray[Any]]:
        inputs = task.collate(examples).inputs
        emissions, _ = model(inputs)
        if scale is not None:
            numbers = emissions.detach().double().numpy() * np.array(scale.deviations) + np.array(scale.means)
            return {"numbers": np.where(inputs.mask.unsqueeze(2).numpy(), numbers, 0)}
        labels = model.decode(emissions, inputs.mask)
        probabilities = model.marginals(emissions, inputs.mask).gather(2, labels.unsqueeze(2)).squeeze(2)
        return {"labels": labels.numpy(), "probabilities": probabilities.detach().numpy()}

    return OnnxModel(
        graph, {"task": task.name, "input": description, "output": output}, partial(_feed, task, learned), expected
    )


def _input(settings: TagSettings, learned: Learned, model: Any) -> tuple[models.Embed, dict[str, Any]]:
    """How inputs enter the graph, and their description for the runtime."""
    embed = model.encoder.embed
    if isinstance(embed, CombinedEmbedding):
        raise ExportError("a model with pretrained vectors (task.pretrained) cannot be exported to ONNX yet")
    if isinstance(embed, WordEmbedding) and learned.words is not None and learned.characters is not None:
        reads = embed.characters is not None
        description = {
            "kind": "words",
            "vocabulary": learned.words.tokens,
            "lowercase": settings.words.lowercase,
            "characters": learned.characters.tokens if reads else None,
            "max_characters": MAX_CHARACTERS,
        }
        return partial(models.word_input, embed=embed, characters=MAX_CHARACTERS if reads else 0), description
    description = {"kind": "vectors", "size": learned.size, "channels": learned.channel_names}
    return partial(models.vector_input, size=learned.size, scale=(learned.mean, learned.deviation)), description


def _feed(task: "Tag", learned: Learned, examples: Sequence[TaggedSequence]) -> dict[str, NDArray[Any]]:
    if learned.words is None:
        return models.padded_vectors(
            [np.asarray(frame_values(learned, example), dtype=np.float64) for example in examples]
        )
    words, characters, mask = task.collate(examples).inputs
    feed = {"words": words.numpy(), "lengths": mask.sum(dim=1).numpy()}
    return feed | ({"characters": characters.long().numpy()} if characters.shape[2] else {})
