"""What models read, as vectors: tokens, words with their characters, numbers."""

from collections.abc import Callable, Sequence

from torch import nn

from seqloom.export_check import ExportError
from seqloom.models.character_encoder import CharacterEncoder
from seqloom.models.classifier import GaussianNoise, TokenEmbedding
from seqloom.models.pretrained.combined import CombinedEmbedding
from seqloom.models.tagger import FrameEmbedding, WordEmbedding
from seqloom.onnx.graph import DOUBLE, FLOAT, INTEGER, Graph, Value
from seqloom.onnx.modules import Rows, emit_identity, emit_layer, emit_module, emits
from seqloom.onnx.pretrained import IN_ORDER, TextOrder, combine

emits(GaussianNoise, FrameEmbedding)(emit_identity)

Embed = Callable[[Graph], tuple[Value, Rows]]
"""Adds the inputs of a model; returns the vectors of its elements, (B, T, D), and which of them are real."""

Scale = tuple[Sequence[float], Sequence[float]]
"""Means and standard deviations of vectors or of targets."""


def token_input(
    graph: Graph, embed: nn.Module, *, rows: str = "batch", order: TextOrder = IN_ORDER
) -> tuple[Value, Rows]:
    """Token ids, (B, T), as vectors, with pretrained ones if there are any; ``rows``: the name of the first axis."""
    tokens = graph.input("tokens", INTEGER, [rows, "time"])
    real = Rows.of(tokens, lengths_input(graph, rows=rows))
    if not isinstance(embed, CombinedEmbedding):
        return emit_module(embed, tokens), real
    own = None if embed.own is None else emit_module(embed.own, tokens)
    return combine(embed, own, real, order=order, axis=rows), real


def vector_input(graph: Graph, size: int, scale: Scale | None) -> tuple[Value, Rows]:
    """Vectors in the units of the data, (B, T, size), which the graph scales in double precision."""
    return _with_lengths(scaled(graph.input("values", DOUBLE, ["batch", "time", size]), scale))


def word_input(graph: Graph, embed: WordEmbedding | CombinedEmbedding, characters: int) -> tuple[Value, Rows]:
    """Word ids, (B, T), and the ids of their characters, (B, T, characters), as vectors, with pretrained ones."""
    words = graph.input("words", INTEGER, ["batch", "time"])
    spelled = graph.input("characters", INTEGER, ["batch", "time", characters]) if characters else None
    rows = Rows.of(words, lengths_input(graph))
    if isinstance(embed, WordEmbedding):
        return embed_words(embed, words, spelled), rows
    own = embed_words(embed.own, words, spelled) if isinstance(embed.own, WordEmbedding) else None
    return combine(embed, own, rows), rows


def _with_lengths(vectors: Value) -> tuple[Value, Rows]:
    return vectors, Rows.of(vectors, lengths_input(vectors.graph))


@emits(TokenEmbedding)
def emit_token_embedding(embedding: TokenEmbedding, tokens: Value) -> Value:
    return emit_module(embedding.embedding, tokens)


@emits(CharacterEncoder)
def emit_characters(encoder: CharacterEncoder, characters: Value) -> Value:  # (B, T, C) → (B, T, size)
    """Each distinct word is computed once."""
    graph = characters.graph
    batch, length, longest = (characters.size(axis) for axis in range(3))
    words, _, places = graph.calls("Unique", characters.reshape(batch * length, longest), outputs=3, axis=0, sorted=0)
    vectors = emit_module(encoder.embed, words)
    lengths = (words > 0).cast(INTEGER).sum(1)
    _, state = emit_layer(graph, encoder.layer, vectors, Rows.of(vectors, lengths))
    forward, backward = state[-1] if encoder.stacked else state
    return graph.concatenate([forward[0], backward[0]]).take(places).reshape(batch, length, encoder.size)


def embed_words(
    embedding: WordEmbedding,
    words: Value,  # (B, T)
    characters: Value | None,  # (B, T, C); None: the embedding has no character encoder
) -> Value:
    """Learned vectors of words, vectors from their characters, or both."""
    vectors = [] if embedding.embedding is None else [emit_module(embedding.embedding, words)]
    if embedding.characters is not None:
        if characters is None:
            raise ExportError("the model reads the characters of words, but there are none")
        vectors.append(emit_module(embedding.characters, characters))
    return words.graph.concatenate(vectors)


def lengths_input(graph: Graph, *, rows: str = "batch") -> Value:
    """The number of elements of each row."""
    return graph.input("lengths", INTEGER, [rows])


def scaled(values: Value, scale: Scale | None) -> Value:
    """Vectors in deviations from their means, computed in double precision; None: as they are."""
    if scale is not None:
        means, deviations = (values.graph.constant(part, DOUBLE) for part in scale)
        values = (values.cast(DOUBLE) - means) / deviations
    return values.cast(FLOAT)
