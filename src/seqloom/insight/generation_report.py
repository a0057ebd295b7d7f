"""Explanations of generated sequences: attention over the source, and the beam search as a tree."""

from typing import Any, NamedTuple

import torch
from pydantic import Field
from torch import nn

from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import START
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.search_record import SearchRecord
from seqloom.insight.attention_capture import capture_attention
from seqloom.insight.attention_maps import AttentionLayers, all_heads, attention_layers, mean_of_heads
from seqloom.insight.beam_tree import beam_nodes
from seqloom.insight.explanation import Explanation, SearchingTask
from seqloom.insight.gate_trace import LabelledTrace, trace_function
from seqloom.insight.token_names import output_tokens
from seqloom.models.encoder_decoder import EncoderDecoder

DEFAULT_BEAM = Beam(size=5, nbest=3)
"""The beam that is shown if the model decodes with another search."""


class Source(NamedTuple):
    """What the decoder attends to."""

    text: str
    tokens: list[str]  # names of the positions, in the order of the text
    order: list[int]  # position of each of them in the encoder's memory; empty: the same order
    notes: list[str]


class _RecordingBeam(Beam):
    """The same search, recording what became of every hypothesis."""

    record: SearchRecord = Field(default_factory=SearchRecord, exclude=True)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return super().__call__(*arguments, **options, record=self.record)


def explain_generation(
    task: SearchingTask,
    model: nn.Module,
    example: Any,
    *,
    source: Source,
    encoding: Tokenizer,  # of the output
    beam: bool,
    heads: bool,
) -> Explanation:
    """The n-best list, the attention of each generated token, and on request the beam and every head."""
    notes = [*source.notes]
    search = task.search
    if beam:
        if not isinstance(search, Beam):
            notes.append(f"the model decodes with {search.name}; the beam shown has size {DEFAULT_BEAM.size}")
            search = DEFAULT_BEAM
        search = _RecordingBeam(**search.model_dump())
        search.record.children = search.size
    batch = task.collate([example])
    (prediction,) = task.model_copy(update={"search": search}).predict(model, batch).answers
    rows, decoder_inputs = output_tokens(encoding, prediction.nbest[0])
    layers: AttentionLayers = []
    if not isinstance(model, EncoderDecoder):
        notes.append("attention is not shown for an ensemble: explain one of its models")
    elif len(source.tokens) == 1:
        notes.append("attention is not shown: the source is a single vector")
    else:
        state = model.start(*batch.inputs)
        _, captured = capture_attention(model.decoder, torch.tensor([decoder_inputs]), state)
        captured_layers = attention_layers(model.decoder, captured, to_self=False)
        layers = [(name, weights[..., source.order] if source.order else weights) for name, weights in captured_layers]
        if not layers:
            notes.append("the model has no attention")
    return Explanation(
        task=task.name,
        source=source.text,
        prediction=prediction,
        headline=f"{source.text} → {prediction.text}",
        title=f"{source.text} → {prediction.text}",
        nbest_tokens=[output_tokens(encoding, each)[0] for each in prediction.nbest],
        attention=mean_of_heads(layers, rows, source.tokens),
        heads=all_heads(layers, rows, source.tokens) if heads else [],
        beam=beam_nodes(search.record, encoding) if beam else [],
        notes=notes,
    )


def trace_generation(
    task: SearchingTask,
    model: nn.Module,
    example: Any,
    *,
    source_tokens: list[str],  # in the order in which the encoder reads them
    encoding: Tokenizer,  # of the output
) -> list[LabelledTrace]:
    """Gates of the encoder and the decoder while the best hypothesis is generated."""
    batch = task.collate([example])
    if not isinstance(model, EncoderDecoder):  # an ensemble: its models run inside the search
        return trace_function(model, lambda: task.predict(model, batch), labels=lambda _: source_tokens)
    (prediction,) = task.predict(model, batch).answers
    tokens, decoder_inputs = output_tokens(encoding, prediction.nbest[0])
    target_tokens = [START, *tokens][: len(decoder_inputs)]

    def labels(name: str) -> list[str]:
        return target_tokens if name.partition(".")[0] == "decoder" else source_tokens

    inputs = torch.tensor([decoder_inputs])
    return trace_function(model, lambda: model.decoder(inputs, model.start(*batch.inputs)), labels=labels)
