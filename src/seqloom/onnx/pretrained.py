"""Pretrained vectors inside a graph: tables of word vectors, and the layers of a language model as contextual ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.layers.embedding import UNKNOWN, Embedding
from seqloom.layers.layer import Layer
from seqloom.layers.scalar_mix import ScalarMix
from seqloom.layers.stack import Stack
from seqloom.layers.transformer.block import Norm
from seqloom.layers.transformer.positions import Positions
from seqloom.models.character_encoder import MAX_CHARACTERS, CharacterInput
from seqloom.models.pretrained.bilm import BiLMEncoder
from seqloom.models.pretrained.combined import (
    CombinedEmbedding,
    CombinedInput,
    ContextualEmbedding,
    ContextualInput,
    FeatureEmbedding,
    PretrainedEmbedding,
)
from seqloom.models.pretrained.contextual import CharacterEmbedding, LMVocabulary
from seqloom.models.pretrained.masked_lm import MaskedLMEncoder
from seqloom.models.pretrained.pretrained import PretrainedInputs
from seqloom.onnx.graph import INTEGER, Axis, Graph, Value
from seqloom.onnx.modules import Rows, array, emit_embedding, emit_layer, emit_module, emits
from seqloom.onnx.stacked import layer_outputs

emits(FeatureEmbedding)(emit_embedding)

CONTEXT = "context"
"""The text of a language model: the ids of the boundary token and the tokens (B, S), or their characters (B, S, 24)."""


@dataclass(frozen=True)
class TextOrder:
    """How a task reads the tokens of a text, as ``PretrainedInputs.collate`` orders them."""

    end: bool = False  # an end token after them
    reverse: bool = False  # the last token first


IN_ORDER = TextOrder()


def combine(
    embedding: CombinedEmbedding,
    own: Value | None,  # (B, T, D), vectors of the task's own embedding
    rows: Rows,
    *,
    order: TextOrder = IN_ORDER,
    axis: str = "batch",  # the name of the first axis
) -> Value:  # (B, T, size)
    """The task's own vectors and the pretrained ones, with the inputs that these read."""
    graph = rows.lengths.graph
    vectors = [] if own is None else [own]
    for name, part in zip(_names(embedding), embedding.pretrained, strict=True):
        if isinstance(part, ContextualEmbedding):
            vectors.append(contextual_vectors(graph, part, rows, order=order, axis=axis))
        else:
            vectors.append(emit_module(part, graph.input(name, INTEGER, [axis, "time"])))
    return graph.concatenate(vectors)


def _names(embedding: CombinedEmbedding) -> list[str]:
    """The graph's input for each part."""
    counts: dict[type, int] = {}
    names = []
    for part in embedding.pretrained:
        number = counts.setdefault(type(part), 0)
        counts[type(part)] += 1
        words = "feature" if isinstance(part, FeatureEmbedding) else "vector_words"
        names.append(CONTEXT if isinstance(part, ContextualEmbedding) else f"{words}_{number}")
    return names


def feed_combined(embedding: CombinedEmbedding, inputs: CombinedInput) -> dict[str, NDArray[Any]]:
    """The collated inputs of the pretrained parts, as inputs of the graph."""
    feed: dict[str, NDArray[Any]] = {}
    for name, part, values in zip(_names(embedding), embedding.pretrained, inputs.pretrained, strict=True):
        if not isinstance(values, ContextualInput):
            feed[name] = values.numpy()
        elif isinstance(part, ContextualEmbedding):
            feed[name] = text_array(part.encoder.embed, values.text)
    return feed


def describe_pretrained(inputs: PretrainedInputs | None) -> dict[str, Any]:
    """What the runtime has to know to look up the words of a text."""
    if inputs is None:
        return {}
    language = None if inputs.language is None else describe_vocabulary(inputs.language.vocabulary)
    return {"pretrained": {"language": language, "words": [part.vocabulary.tokens for part in inputs.words]}}


def describe_vocabulary(vocabulary: LMVocabulary) -> dict[str, Any]:
    """The tokenizer of a language model, and how words are spelled if it reads their characters."""
    characters = None if vocabulary.characters is None else vocabulary.characters.tokens
    tokenizer = vocabulary.text.model_dump(mode="json")
    return {"tokenizer": tokenizer, "characters": characters, "max_characters": MAX_CHARACTERS}


@emits(PretrainedEmbedding)
def emit_pretrained(embedding: PretrainedEmbedding, words: Value) -> Value:
    table = array(embedding.table.weight).copy()
    table[UNKNOWN] = array(embedding.unknown)
    return words.graph.constant(table).take(words)


@emits(CharacterEmbedding)
def emit_character_embedding(embedding: CharacterEmbedding, characters: Value) -> Value:
    return emit_module(embedding.output, emit_module(embedding.characters, characters))


def contextual_vectors(
    graph: Graph, embedding: ContextualEmbedding, rows: Rows, *, order: TextOrder, axis: str
) -> Value:  # (B, T, size)
    """The mixed layers of the language model at each element of the task's text."""
    tokens = rows.lengths - int(order.end)
    vectors = text_vectors(graph, embedding.encoder.embed, name=CONTEXT, axes=(axis, "context_time"))
    text = Rows.of(vectors, tokens + 1)
    mixed = mix(embedding.mixture, levels(graph, embedding.encoder, vectors, text))
    steps = graph.range(rows.mask.size(1)).unsqueeze(0)
    count = tokens.unsqueeze(1)
    places = count - steps if order.reverse else steps + 1
    return take_elements(mixed, graph.where(steps < count, places, 0))  # 0: the boundary


def text_vectors(
    graph: Graph, embed: Embedding | CharacterEmbedding, *, name: str, axes: Sequence[str]
) -> Value:  # (B, S, D)
    """The input vectors of a language model, from the ids of words or of their characters."""
    shape: list[Axis] = [*axes, MAX_CHARACTERS] if isinstance(embed, CharacterEmbedding) else [*axes]
    return emit_module(embed, graph.input(name, INTEGER, shape))


def text_array(embed: Embedding | CharacterEmbedding, text: CharacterInput) -> NDArray[np.int64]:
    """The collated text of a language model, as the input of its graph."""
    values = text.characters.long() if isinstance(embed, CharacterEmbedding) else text.words
    array: NDArray[np.int64] = values.numpy()
    return array


def levels(graph: Graph, encoder: BiLMEncoder | MaskedLMEncoder, vectors: Value, text: Rows) -> list[Value]:
    """The outputs of each layer: vectors without context first; both directions concatenated."""
    if isinstance(encoder, MaskedLMEncoder):
        return [vectors, *layer_levels(graph, encoder.layer, vectors, text)]
    forward = layer_levels(graph, encoder.forward_layer, vectors, text)
    backward = layer_levels(graph, encoder.backward_layer, reverse_padded(vectors, text), text)
    both = [
        graph.concatenate([left, reverse_padded(right, text)]) for left, right in zip(forward, backward, strict=True)
    ]
    return [graph.concatenate([vectors, vectors]) if encoder.doubled else vectors, *both]


def layer_levels(graph: Graph, layer: Layer, x: Value, rows: Rows) -> list[Value]:
    """As ``models.pretrained.contextual.layer_levels``."""
    if type(layer) is not Stack:
        return [emit_layer(graph, layer, x, rows)[0]]
    outputs: list[Value] = []
    for module, values in layer_outputs(graph, layer, x, rows)[0]:
        if isinstance(module, Norm) and outputs:
            outputs[-1] = values
        elif not isinstance(module, Positions):
            outputs.append(values)
    return outputs


def mix(mixture: ScalarMix, values: list[Value]) -> Value:
    weights = array(mixture.scale * mixture.layer_weights)
    parts = zip(weights, mixture.maps, values, strict=True)
    weighted = [emit_module(project, value) * weight for weight, project, value in parts]
    mixed: Value = reduce(Value.__add__, weighted)
    return mixed


def reverse_padded(values: Value, rows: Rows) -> Value:  # (B, T, D)
    """Reverse the real elements after the first."""
    graph = values.graph
    steps, lengths = graph.range(values.size(1)).unsqueeze(0), rows.lengths.unsqueeze(1)
    inner = (steps > 0) & (steps < lengths)
    return take_elements(values, graph.where(inner, lengths - steps, steps))


def take_elements(values: Value, places: Value) -> Value:  # (B, S, D), (B, T) → (B, T, D)
    """The elements of each row at its places."""
    graph = values.graph
    starts = (graph.range(values.size(0)) * values.size(1)).unsqueeze(1)
    flat = values.reshape(values.size(0) * values.size(1), values.size(2))
    return flat.take(starts + places)
