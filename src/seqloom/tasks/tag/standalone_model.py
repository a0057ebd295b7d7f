"""Taggers as compiled functions."""

from functools import partial
from typing import TYPE_CHECKING, Any

from seqloom.export_check import padded_vectors
from seqloom.models.character_encoder import MAX_CHARACTERS
from seqloom.models.pretrained.combined import CombinedEmbedding
from seqloom.models.tagger import FrameEmbedding, WordEmbedding
from seqloom.standalone import models
from seqloom.standalone.frames import embed_spectrum, spectrum_ports
from seqloom.standalone.interface import Port, StandaloneModel, Texts
from seqloom.standalone.models import ModelInput, embed_vectors, embed_words
from seqloom.standalone.modules import unsupported
from seqloom.standalone.texts import UNKNOWN_TOKEN
from seqloom.tasks.tag.export_answers import expected, feed_sound, feed_words, sound_spectrum, units, vector_values

if TYPE_CHECKING:
    from seqloom.tasks.tag.tag import Tag


def standalone_model(task: "Tag", model: Any) -> StandaloneModel:
    """A tagger of words, vectors or sound."""
    learned, scale = task.fitted, task.fitted.scale
    if task.is_counting_model:
        raise unsupported('a tagger with task.model = "hmm"')
    given = _input(task, model)
    texts = given.texts
    if scale is None:
        texts = (Texts(learned.labels.names, "label"), *texts)
        outputs: tuple[Port, ...] = (
            Port("labels", "int32_t", ("length",), "the number of the best label of each element", frames=given.frames),
            Port("probabilities", "float", ("length",), "the probability of that label", frames=given.frames),
        )
        emit = partial(models.tagger, model=model, embed=given.embed)
    else:
        described = f"{', '.join(scale.names)}, in the units of the data, at each element"
        outputs = (Port("numbers", "double", ("length", len(scale.means)), described, frames=given.frames),)
        emit = partial(models.step_regressor, model=model, embed=given.embed, scale=(scale.means, scale.deviations))
    return StandaloneModel(
        given.ports,
        outputs,
        emit,
        given.feed,
        partial(expected, task, model),
        texts=texts,
        notes=given.notes,
        units=units(task),
    )


def _input(task: "Tag", model: Any) -> ModelInput:
    learned = task.fitted
    embed: Any = model.encoder.embed
    if learned.features:
        raise unsupported("a model with task.feature_columns")
    if isinstance(embed, CombinedEmbedding):
        raise unsupported("a model with pretrained vectors (task.pretrained)")
    if isinstance(embed, WordEmbedding) and learned.words is not None and learned.characters is not None:
        ports = [Port("words", "int32_t", ("length",), "the number of each word", limit=len(learned.words))]
        texts = [Texts(learned.words.tokens, "word", is_looked_up=True, unknown=UNKNOWN_TOKEN)]
        notes = ["Convert words to lowercase to look them up."] if task.words.lowercase else []
        if embed.characters is not None:
            ids = learned.characters.tokens
            described = "the numbers of the characters of each word, 0 after its end"
            ports.append(Port("characters", "int32_t", ("length", MAX_CHARACTERS), described, limit=len(ids)))
            texts.append(Texts(ids, "character", is_looked_up=True, unknown=UNKNOWN_TOKEN))
            half = MAX_CHARACTERS // 2
            notes.append(
                "Characters are those of the word as it is written; of one with more than "
                f"{MAX_CHARACTERS} of them, the first {half} and the last {half}."
            )
        read = partial(embed_words, embed=embed, characters=MAX_CHARACTERS)
        return ModelInput(tuple(ports), read, partial(feed_words, task), tuple(texts), tuple(notes))
    if not isinstance(embed, FrameEmbedding):
        raise unsupported("a tagger of videos")
    if (spectrum := sound_spectrum(task, learned)) is not None:
        sound = partial(embed_spectrum, spectrum=spectrum, scale=(learned.mean, learned.deviation))
        port, frames = spectrum_ports(spectrum)
        return ModelInput((port,), sound, partial(feed_sound, task), frames=frames)
    named = f" ({', '.join(learned.channel_names)})" if learned.channel_names else ""
    port = Port("values", "double", ("length", learned.size), f"vectors{named}, in the units of the data")
    read = partial(embed_vectors, size=learned.size, scale=(learned.mean, learned.deviation))
    return ModelInput((port,), read, lambda examples: padded_vectors(vector_values(learned, examples)))
