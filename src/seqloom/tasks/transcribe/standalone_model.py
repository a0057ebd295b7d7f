"""Transcribers as compiled functions."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.decoding.frames.frame_search import Guide
from seqloom.export_check import Arrays, padded_samples, padded_vectors
from seqloom.models.signals.frame_encoder import FrameEncoder
from seqloom.standalone.frames import embed_sound, sound_ports
from seqloom.standalone.interface import Frames, Port, StandaloneModel
from seqloom.standalone.models import Embed, embed_vectors
from seqloom.standalone.modules import unsupported
from seqloom.standalone.texts import token_texts
from seqloom.standalone.transcriber import transcriber
from seqloom.tasks.transcribe.export_answers import expected

if TYPE_CHECKING:
    from seqloom.tasks.transcribe.transcribe import Transcribe


def standalone_model(task: "Transcribe", model: Any, guide: Guide) -> StandaloneModel:
    """The best path of CTC over vectors or sound."""
    statistics, encoder = task.fitted.statistics, model.encoder
    if task.model != "ctc":
        raise unsupported(f'a transcriber with task.model = "{task.model}"')
    if statistics.kind not in ("vectors", "sound") or type(encoder) is not FrameEncoder or encoder.features.images:
        raise unsupported("a transcriber of images or videos")
    if guide.lexicon is not None or guide.lm is not None:
        raise unsupported("a search with a lexicon or a language model")
    if statistics.kind == "sound":
        given, frames = sound_ports(encoder.features)
        embed: Embed = partial(embed_sound, features=encoder.features)
        feed: Callable[[Any], Arrays] = padded_samples
    else:
        named = f" ({', '.join(statistics.channel_names)})" if statistics.channel_names else ""
        given = Port("values", "double", ("length", statistics.size), f"vectors{named}, in the units of the data")
        is_scaled = bool(statistics.mean) and encoder.features.normalise is None
        scale = (statistics.mean, statistics.deviation) if is_scaled else None
        embed, feed, frames = partial(embed_vectors, size=statistics.size, scale=scale), padded_vectors, Frames()
    frames = frames._replace(factor=task.time_reduction.total_factor)
    tokens = len(task.fitted.text.vocabulary)

    def answers(examples: Any) -> dict[str, Any]:
        arrays = expected(task, model, examples)
        counts = (arrays["tokens"] != 0).sum(axis=1, keepdims=True)
        return {**arrays, "token_count": counts, "frame_count": arrays["frame_counts"][:, np.newaxis]}

    table = "the log-probabilities of all tokens at each frame, then zeros; token 0 is the blank of CTC"
    return StandaloneModel(
        (given,),
        (
            Port("tokens", "int32_t", ("length",), "the tokens of the transcript, then zeros", frames=frames),
            Port("token_count", "int32_t", (1,), "how many tokens there are"),
            Port("frame_log_probabilities", "float", ("length", tokens), table, frames=frames),
            Port("frame_count", "int32_t", (1,), "how many frames there are"),
        ),
        partial(transcriber, model=model, embed=embed, frames=frames),
        lambda examples: feed([example.values for example in examples]),
        answers,
        texts=(token_texts(task.fitted.text),),
        notes=("The transcript is the best path of CTC.",),
    )
