"""Classifiers as compiled functions."""

from functools import partial
from typing import TYPE_CHECKING, Any

from seqloom.data.text.tokenizers import Tokenizer
from seqloom.export_check import feed_tokens, padded_samples, padded_vectors
from seqloom.models.pretrained.combined import CombinedEmbedding
from seqloom.standalone import models
from seqloom.standalone.frames import embed_sound, sound_ports
from seqloom.standalone.interface import Port, StandaloneModel, Texts
from seqloom.standalone.models import ModelInput, embed_tokens, embed_vectors
from seqloom.standalone.modules import unsupported
from seqloom.standalone.texts import token_notes, token_texts
from seqloom.tasks.classify.export_answers import expected, signal_values, units
from seqloom.tasks.task import require_fitted

if TYPE_CHECKING:
    from seqloom.tasks.classify.classify import Classify


def standalone_model(task: "Classify", model: Any) -> StandaloneModel:
    """A classifier of texts, vectors or sound."""
    learned, scale = task.fitted, task.fitted.scale
    given = _signal(task, model) if learned.text is None else _text(task, model, learned.text)
    targets = None if scale is None else (scale.means, scale.deviations)
    texts: tuple[Texts, ...] = ()
    if scale is None:
        names = learned.labels.names
        texts = (Texts(names, "label"),)
        output = Port("probabilities", "float", (len(names),), "the probability of each label")
    else:
        output = Port("numbers", "double", (len(scale.means),), f"{', '.join(scale.names)}, in the units of the data")
    return StandaloneModel(
        given.ports,
        (output,),
        partial(models.classifier, model=model, embed=given.embed, scale=targets),
        given.feed,
        partial(expected, task, model),
        texts=(*texts, *given.texts),
        notes=given.notes,
        units=units(task),
    )


def _text(task: "Classify", model: Any, tokenizer: Tokenizer) -> ModelInput:
    if task.reads_pairs:
        raise unsupported("a classifier of pairs of texts")
    if isinstance(model.encoder.embed, CombinedEmbedding):
        raise unsupported("a model with pretrained vectors (task.pretrained)")
    limit = len(tokenizer.vocabulary)
    return ModelInput(
        (Port("tokens", "int32_t", ("length",), "the number of each token of the text", limit=limit),),
        partial(embed_tokens, embed=model.encoder.embed),
        partial(feed_tokens, task.collate),
        texts=(token_texts(tokenizer),),
        notes=token_notes(tokenizer),
    )


def _signal(task: "Classify", model: Any) -> ModelInput:
    signal = require_fitted(task.fitted.signal)
    if signal.kind == "sound":
        features = model.encoder.features
        port, _ = sound_ports(features)
        embed = partial(embed_sound, features=features)
        return ModelInput((port,), embed, lambda examples: padded_samples(signal_values(task, examples)))
    if signal.kind != "vectors":
        raise unsupported(f"a classifier of {signal.kind}s")
    named = f" ({', '.join(signal.channel_names)})" if signal.channel_names else ""
    scale = (signal.mean, signal.deviation) if signal.mean else None
    return ModelInput(
        (Port("values", "double", ("length", signal.size), f"vectors{named}, in the units of the data"),),
        partial(embed_vectors, size=signal.size, scale=scale),
        lambda examples: padded_vectors(signal_values(task, examples)),
    )
