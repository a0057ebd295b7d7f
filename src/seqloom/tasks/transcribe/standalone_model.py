"""Transcribers as compiled functions."""

from functools import partial
from typing import TYPE_CHECKING, Any

from seqloom.decoding.frames.frame_search import Guide
from seqloom.export_check import padded_vectors
from seqloom.models.signals.frame_encoder import FrameEncoder
from seqloom.standalone.frames import check_features
from seqloom.standalone.interface import Port, StandaloneModel
from seqloom.standalone.modules import unsupported
from seqloom.standalone.texts import token_texts
from seqloom.standalone.transcriber import transcriber
from seqloom.tasks.transcribe.export_answers import expected

if TYPE_CHECKING:
    from seqloom.tasks.transcribe.transcribe import Transcribe


def standalone_model(task: "Transcribe", model: Any, guide: Guide) -> StandaloneModel:
    """The best path of CTC over vectors."""
    statistics = task.fitted.statistics
    if task.model != "ctc":
        raise unsupported(f'a transcriber with task.model = "{task.model}"')
    if statistics.kind != "vectors" or type(model.encoder) is not FrameEncoder:
        raise unsupported("a transcriber of sound, images or videos")
    if guide.lexicon is not None or guide.lm is not None:
        raise unsupported("a search with a lexicon or a language model")
    check_features(model.encoder.features)
    factor, tokens = task.time_reduction.total_factor, len(task.fitted.text.vocabulary)
    named = f" ({', '.join(statistics.channel_names)})" if statistics.channel_names else ""
    values = Port("values", "double", ("length", statistics.size), f"vectors{named}, in the units of the data")

    is_scaled = bool(statistics.mean) and model.encoder.features.normalise is None
    scale = (statistics.mean, statistics.deviation) if is_scaled else None

    def answers(examples: Any) -> dict[str, Any]:
        arrays = expected(task, model, examples)
        counts = (arrays["tokens"] != 0).sum(axis=1, keepdims=True)
        return {**arrays, "token_count": counts}

    return StandaloneModel(
        (values,),
        (
            Port("tokens", "int32_t", ("length",), "the tokens of the transcript, then zeros", divisor=factor),
            Port("token_count", "int32_t", (1,), "how many there are"),
            Port(
                "frame_log_probabilities",
                "float",
                ("length", tokens),
                "those of all tokens at each frame; token 0 is the blank of CTC",
                divisor=factor,
            ),
        ),
        partial(transcriber, model=model, size=statistics.size, scale=scale),
        lambda examples: padded_vectors([example.values for example in examples]),
        answers,
        texts=(token_texts(task.fitted.text),),
        notes=("The transcript is the best path of CTC.",),
    )
