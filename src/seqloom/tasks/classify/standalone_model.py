"""Classifiers as compiled functions."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from seqloom.export_check import Arrays, feed_tokens, padded_vectors
from seqloom.models.pretrained.combined import CombinedEmbedding
from seqloom.standalone import models
from seqloom.standalone.interface import Port, StandaloneModel, Texts
from seqloom.standalone.models import Embed, embed_tokens, embed_vectors
from seqloom.standalone.modules import unsupported
from seqloom.standalone.texts import token_notes, token_texts
from seqloom.tasks.classify.export_answers import expected, signal_values, units
from seqloom.tasks.task import require_fitted

if TYPE_CHECKING:
    from seqloom.tasks.classify.classify import Classify


def standalone_model(task: "Classify", model: Any) -> StandaloneModel:
    """A classifier of texts or vectors."""
    learned, scale = task.fitted, task.fitted.scale
    targets = None if scale is None else (scale.means, scale.deviations)
    texts: tuple[Texts, ...] = ()
    if scale is None:
        names = learned.labels.names
        texts = (Texts(names, "label"),)
        output = Port("probabilities", "float", (len(names),), "the probability of each label")
    else:
        output = Port("numbers", "double", (len(scale.means),), f"{', '.join(scale.names)}, in the units of the data")
    if learned.text is not None:
        tokenizer = learned.text
        if task.reads_pairs:
            raise unsupported("a classifier of pairs of texts")
        if isinstance(model.encoder.embed, CombinedEmbedding):
            raise unsupported("a model with pretrained vectors (task.pretrained)")
        limit = len(tokenizer.vocabulary)
        given = Port("tokens", "int32_t", ("length",), "the number of each token of the text", limit=limit)
        embed: Embed = partial(embed_tokens, embed=model.encoder.embed)
        feed: Callable[[Any], Arrays] = partial(feed_tokens, task.collate)
        texts, notes = (*texts, token_texts(tokenizer)), token_notes(tokenizer)
    else:
        signal = require_fitted(learned.signal)
        if signal.kind != "vectors":
            raise unsupported(f"a classifier of {signal.kind}s" if signal.kind != "sound" else "a classifier of sound")
        named = f" ({', '.join(signal.channel_names)})" if signal.channel_names else ""
        given = Port("values", "double", ("length", signal.size), f"vectors{named}, in the units of the data")
        vector_scale = (signal.mean, signal.deviation) if signal.mean else None
        embed = partial(embed_vectors, size=signal.size, scale=vector_scale)
        feed, notes = lambda examples: padded_vectors(signal_values(task, examples)), ()
    return StandaloneModel(
        (given,),
        (output,),
        partial(models.classifier, model=model, embed=embed, scale=targets),
        feed,
        partial(expected, task, model),
        texts=texts,
        notes=notes,
        units=units(task),
    )
