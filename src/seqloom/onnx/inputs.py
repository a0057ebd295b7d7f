"""Encoders and what they read: tokens, words with their characters, or vectors."""

from collections.abc import Sequence
from typing import Any

from seqloom.models.character_encoder import CharacterEncoder
from seqloom.models.classifier import GaussianNoise, TokenEmbedding
from seqloom.models.encoder import Encoder
from seqloom.models.tagger import FrameEmbedding, WordEmbedding
from seqloom.onnx.graph import DOUBLE, FLOAT, INTEGER, ExportError, Graph, Value
from seqloom.onnx.modules import Rows, State, emit_identity, emit_layer, emit_module, emits

emits(GaussianNoise, FrameEmbedding)(emit_identity)


@emits(TokenEmbedding)
def emit_token_embedding(embedding: TokenEmbedding, tokens: Value) -> Value:
    return emit_module(embedding.embedding, tokens)


@emits(CharacterEncoder)
def emit_characters(encoder: CharacterEncoder, characters: Value) -> Value:  # (B, T, C) → (B, T, size)
    graph = characters.graph
    batch, length, longest = (characters.size(axis) for axis in range(3))
    words = characters.reshape(batch * length, longest)
    vectors = emit_module(encoder.embed, words)
    lengths = (words > 0).cast(INTEGER).sum(1)
    _, state = emit_layer(graph, encoder.layer, vectors, Rows.of(vectors, lengths))
    forward, backward = state[-1] if encoder.stacked else state
    return graph.concatenate([forward[0], backward[0]]).reshape(batch, length, encoder.size)


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


def encode(encoder: Any, vectors: Value, rows: Rows, state: State = None) -> tuple[Value, State]:  # (B, T, D)
    """The outputs of an encoder for embedded inputs, and its last state."""
    if type(encoder) is not Encoder:
        raise ExportError(f"the encoder {type(encoder).__name__} cannot be exported to ONNX")
    return emit_layer(vectors.graph, encoder.layer, vectors, rows, state)


def lengths_input(graph: Graph) -> Value:
    """The number of elements of each row."""
    return graph.input("lengths", INTEGER, ["batch"])


def scaled(values: Value, scale: tuple[Sequence[float], Sequence[float]] | None) -> Value:
    """Vectors in deviations from their means, computed in double precision; None: as they are."""
    if scale is not None:
        means, deviations = (values.graph.constant(part, DOUBLE) for part in scale)
        values = (values - means) / deviations
    return values.cast(FLOAT)
