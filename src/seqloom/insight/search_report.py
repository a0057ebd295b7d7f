"""Explanations of what a search returns: generated sequences with attention and beam, transcripts frame by frame."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, Self

import torch
from pydantic import Field

from seqloom.data.batch import Batch
from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import END, START
from seqloom.decoding.frames.best_path import BestPath
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.search_record import SearchRecord
from seqloom.insight.attention_capture import capture_attention
from seqloom.insight.attention_maps import AttentionLayers, all_heads, attention_layers, mean_of_heads
from seqloom.insight.beam_tree import beam_nodes
from seqloom.insight.ctc_plot import frame_probabilities
from seqloom.insight.explanation import ALIGNMENT, AttentionMap, Explanation
from seqloom.insight.gates import LabelledTrace, trace_function
from seqloom.insight.prefix_tree import prefix_choices, prefix_nodes, record_prefixes
from seqloom.insight.token_names import output_tokens
from seqloom.models.encoder_decoder import EncoderDecoder
from seqloom.models.ensemble import Ensemble
from seqloom.models.transcription.transcriber import FrameTranscriber

DEFAULT_BEAM = Beam(size=5, nbest=3)
"""The beam that is shown if the model decodes with another search."""
DEFAULT_PREFIX_BEAM = PrefixBeam(size=64, nbest=5)
"""The beam that lists alternatives if the search of a transcriber returns a single transcript."""


class SearchingTask(Protocol):
    """What an explanation needs of a task whose predictions come from a search."""

    @property
    def name(self) -> str: ...

    @property
    def search(self) -> Any: ...

    def model_copy(self, *, update: dict[str, Any]) -> Self: ...

    def collate(self, examples: Sequence[Any]) -> Batch: ...

    def predict(self, model: Any, batch: Batch) -> Any: ...


class DecoderSource(NamedTuple):
    """What the decoder attends to."""

    text: str
    tokens: list[str]  # names of the positions, in the order of the text
    order: list[int]  # position of each of them in the encoder's memory; empty: the same order
    notes: list[str]


class _RecordingBeam(Beam):
    """The same search, recording every candidate."""

    record: SearchRecord = Field(default_factory=SearchRecord, exclude=True)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return super().__call__(*arguments, **options, record=self.record)


def explain_generation(
    task: SearchingTask,
    model: EncoderDecoder | Ensemble,
    example: Any,
    *,
    source: DecoderSource,
    encoding: Tokenizer,  # of the output
    beam: bool,
    heads: bool,
    guide: Guide | None = None,  # lexicon and language model of the search
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
        if guide is not None and guide.rescores:
            notes.append("the tree shows the search, before the language model reorders its n-best list")
    batch = task.collate([example])
    (prediction,) = task.model_copy(update={"search": search}).predict(model, batch).answers
    rows, decoder_inputs = output_tokens(encoding, prediction.nbest[0])
    layers: AttentionLayers = []
    target = encoding.vocabulary.encode([*prediction.nbest[0].tokens, END])[: len(rows)]
    alignment, decoder = model.align(batch.inputs, target), model.single_decoder
    attention: AttentionMap | None = None
    if alignment is not None:
        attention = AttentionMap(ALIGNMENT, rows, source.tokens, alignment.tolist())
    elif decoder is None:
        notes.append("attention is not shown for an ensemble: explain one of its models")
    elif len(source.tokens) == 1:
        notes.append("attention is not shown: the source is a single vector")
    else:
        state = decoder.start(model.encoder(*batch.inputs), 1)
        _, captured = capture_attention(decoder, torch.tensor([decoder_inputs]), state)
        captured_layers = attention_layers(decoder, captured, to_self=False)
        layers = [(name, weights[..., source.order] if source.order else weights) for name, weights in captured_layers]
        if not layers:
            notes.append("the model has no attention")
    return Explanation(
        task=task.name,
        source=source.text,
        prediction=prediction,
        headline=f"{source.text} → {prediction.text}",
        title=f"{source.text} → {prediction.text}",
        nbest_tokens=[output_tokens(encoding, candidate)[0] for candidate in prediction.nbest],
        attention=attention or mean_of_heads(layers, rows, source.tokens),
        heads=all_heads(layers, rows, source.tokens) if heads else [],
        beam=beam_nodes(search.record, encoding) if beam else [],
        notes=notes,
    )


def trace_generation(
    task: SearchingTask,
    model: EncoderDecoder | Ensemble,
    example: Any,
    *,
    source_tokens: list[str],  # in the order in which the encoder reads them
    encoding: Tokenizer,  # of the output
) -> list[LabelledTrace]:
    """Gates of the encoder and the decoder while the best hypothesis is generated."""
    batch = task.collate([example])
    decoder = model.single_decoder
    if decoder is None:  # the models of an ensemble run inside the search, and counts have no gates
        return trace_function(model, lambda: task.predict(model, batch), labels=lambda _: source_tokens)
    (prediction,) = task.predict(model, batch).answers
    tokens, decoder_inputs = output_tokens(encoding, prediction.nbest[0])
    target_tokens = [START, *tokens][: len(decoder_inputs)]

    def labels(name: str) -> list[str]:
        return target_tokens if name.partition(".")[0] == "decoder" else source_tokens

    inputs = torch.tensor([decoder_inputs])
    return trace_function(model, lambda: decoder(inputs, decoder.start(model.encoder(*batch.inputs), 1)), labels=labels)


def explain_transcript(
    task: SearchingTask,
    model: FrameTranscriber,
    example: Any,
    *,
    encoding: Tokenizer,
    reduction: int,  # input frames per output frame
    file_name: str,
    beam: bool,  # show the search, and list alternatives even if the model's search returns one transcript
    guide: Guide | None = None,  # lexicon and language model of the search
) -> Explanation:
    """The token probabilities at each frame of a recording, and its best transcripts."""
    notes = []
    search = task.search
    if beam and isinstance(search, BestPath):
        notes.append(f"the model decodes with {search.name}; the beam shown has size {DEFAULT_PREFIX_BEAM.size}")
        search = DEFAULT_PREFIX_BEAM
    elif beam and search.nbest == 1:
        search = search.model_copy(update={"nbest": DEFAULT_PREFIX_BEAM.nbest})
        notes.append(f"the model's search returns one transcript; here it returns {search.nbest}")
    batch = task.collate([example])
    (prediction,) = task.model_copy(update={"search": search}).predict(model, batch).answers
    frames, inputs = frame_probabilities(
        model,
        batch.inputs.values,
        batch.inputs.mask,
        encoding,
        transcript=prediction.tokens,
        reduction=reduction,
        file_name=file_name,
    )
    if example.text is not None:
        likelihood = "too few frames" if prediction.loss is None else f"log-probability {-prediction.loss:.4f}"
        notes.append(f"reference: {example.text!r} ({likelihood})")
    source = example.name or str(example.location)
    nodes, choices = [], []
    if beam:
        logits = model.frame_logits(model.encoder(*batch.inputs))
        record = record_prefixes(logits[0].double().log_softmax(dim=-1).cpu().numpy(), search, encoding, guide)
        nodes, choices = prefix_nodes(record, nbest=search.nbest), prefix_choices(record)
        if search.lag:
            notes.append(f"the tree shows the search without its lag of {search.lag} frames")
    return Explanation(
        task=task.name,
        source=source,
        prediction=prediction,
        headline=f"{source} → {prediction.text}",
        title=f"{source} → {prediction.text}",
        frames=frames,
        beam=nodes,
        prefixes=choices,
        image=inputs,
        notes=notes,
    )
