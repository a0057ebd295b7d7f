"""Transcribers as ONNX graphs."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from seqloom.data.readers.recordings import Recording
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.models.generation import SUPPRESSED, generate
from seqloom.onnx import encoder_decoder as parts
from seqloom.onnx.exported import OnnxModel
from seqloom.onnx.guide import export_guide
from seqloom.onnx.search import ModelInput, forced_steps, generator
from seqloom.onnx.signals import signal_input
from seqloom.onnx.transcriber import frame_outputs, transcriber
from seqloom.tasks.transcribe.decoding import MARGIN, OFFSET, TranscriptDecoder
from seqloom.tasks.transcribe.export_answers import expected

if TYPE_CHECKING:
    from seqloom.tasks.transcribe.transcribe import Transcribe


def onnx_model(task: "Transcribe", model: Any, guide: Guide, decoder: TranscriptDecoder | None) -> OnnxModel:
    """The best path of CTC, or greedy search with a decoder; and the parts of a decoder for other searches."""
    text, further = task.fitted.text, export_guide(guide)
    output: dict[str, Any] = {
        "kind": "transcript",
        "ctc": task.has_ctc,
        "tokenizer": text.model_dump(mode="json"),
        "frame_duration": task.frames.duration,
        "search": task.search.model_dump(mode="json"),
        "guide": further.description,
    }
    entry, description = _input(task, model), {"task": task.name, "output": output}
    if decoder is None:
        return replace(_ctc_model(task, model, entry, description), parts=further.parts)
    limits = parts.Limits(MARGIN * task.fitted.tokens_per_frame, OFFSET)

    def greedy(examples: Sequence[Recording]) -> tuple[Any, Any]:
        memory = model.encoder(*task.collate(examples).inputs)
        lengths = decoder.limits(memory.mask.sum(dim=1))
        options: dict[str, Any] = {"end": decoder.end, "lengths": lengths, "suppress": SUPPRESSED}
        return generate(model.decoder, memory, Greedy(), **options), lengths

    if not task.has_ctc:
        options: dict[str, Any] = {"end": decoder.end, "suppress": SUPPRESSED, "generate": greedy, "guide": further}
        return generator(model, entry, limits=limits, description=description, **options)
    encoder, ports, source = parts.encoder(model, entry.embed, limits=limits)
    frame_outputs(encoder, model, source)
    output |= {"end": decoder.end, "suppress": SUPPRESSED, "states": ports.description()}
    output["ctc_weight"] = decoder.ctc_weight
    single = _ctc_model(task, model, entry, description)
    return OnnxModel(
        single.graph,
        single.description,
        single.feed,
        single.expected,
        {"encoder": encoder, "step": parts.step(model), **further.parts},
        forced_steps(greedy, ports.description(), decoder.end),
    )


def _ctc_model(task: "Transcribe", model: Any, entry: ModelInput, description: dict[str, Any]) -> OnnxModel:
    described = {**description, "input": entry.description}
    return OnnxModel(transcriber(model, entry.embed), described, entry.feed, partial(expected, task, model))


def _input(task: "Transcribe", model: Any) -> ModelInput:
    signal = signal_input(
        task.fitted.statistics,
        model.encoder,
        image_size=task.image_size,
        line_height=task.image_encoder.height,
    )

    def feed(examples: Sequence[Recording]) -> dict[str, NDArray[Any]]:
        return signal.feed([example.values for example in examples])

    return ModelInput(signal.embed, signal.description, feed)
