"""Models as functions of C: what they read and answer, in the units of the data."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from torch import nn

from seqloom.export_check import Arrays
from seqloom.kernels.llvm.ir_builder import Value, integer
from seqloom.layers.embedding import Embedding
from seqloom.models.character_encoder import CharacterEncoder
from seqloom.models.classifier import Classifier, TokenEmbedding
from seqloom.models.crf import CRF
from seqloom.models.encoder import Encoder
from seqloom.models.signals.frame_encoder import FrameEncoder
from seqloom.models.step_regressor import StepRegressor
from seqloom.models.tagger import Tagger, WordEmbedding
from seqloom.standalone import crf, recurrent, spectral_convolution  # noqa: F401  how layers are compiled
from seqloom.standalone.builder import DOUBLE, ONE, SHORT, Addresses, Count, ModelBuilder, Rows
from seqloom.standalone.frames import encode_frames
from seqloom.standalone.interface import EACH, Frames, Port, Texts
from seqloom.standalone.modules import array, emit_layer, emit_module, largest, softmax, unsupported
from seqloom.standalone.pooling import pool

Embed = Callable[[ModelBuilder, Addresses], Rows]
"""The vectors that a model reads, one for each element of the input."""


class ModelInput(NamedTuple):
    """How the examples of a task enter a compiled model."""

    ports: tuple[Port, ...]
    embed: Embed
    feed: Callable[[Sequence[Any]], Arrays]  # examples → arrays of the ports, and ``lengths``
    texts: tuple[Texts, ...] = ()
    notes: tuple[str, ...] = ()
    frames: Frames = EACH  # that a model answers for


Scale = tuple[Sequence[float], Sequence[float]]
"""Means and standard deviations of vectors or of targets."""


def embed_tokens(b: ModelBuilder, inputs: Addresses, *, embed: nn.Module) -> Rows:
    """The vectors of token ids."""
    if isinstance(embed, TokenEmbedding):
        embed = embed.embedding
    if type(embed) is not Embedding:
        raise unsupported(f"an embedding of the class {type(embed).__name__}")
    return look_up(b, embed, inputs["tokens"], b.length)


def look_up(b: ModelBuilder, embedding: Embedding, ids: Value, count: Count) -> Rows:
    """The rows of an embedding for an array of ids."""
    table = array(embedding.weight)
    size = table.shape[1]
    source, target = b.constant(table), b.allocate(count, size)
    with b.emit.loop(0, count.value) as index:
        start = b.builder.mul(b.load_token(ids, index), integer(size))
        vector = Rows(b.emit.advance(source, start), ONE, size, size)
        b.copy(vector, b.row(target, index))
    return target


def embed_words(b: ModelBuilder, inputs: Addresses, *, embed: WordEmbedding, characters: int) -> Rows:
    """The learned vectors of words, vectors from their characters, or both."""
    parts = [] if embed.embedding is None else [look_up(b, embed.embedding, inputs["words"], b.length)]
    if embed.characters is not None:
        parts.append(_spell(b, embed.characters, inputs["characters"], characters))
    return b.concatenate(parts)


def _spell(b: ModelBuilder, encoder: CharacterEncoder, characters: Value, longest: int) -> Rows:
    """The last states of both directions over the characters of each word."""
    target = b.allocate(b.length, encoder.size)
    with b.emit.loop(0, b.length.value) as word, b.workspace.temporary():
        start = b.builder.mul(word, integer(longest))
        ids = b.builder.add(characters, b.builder.mul(start, integer(4)))
        used = b.workspace.reserve(0, 8)
        b.store_integer(0, used, 0)
        with b.emit.loop(0, longest) as index:
            is_real = b.builder.icmp_signed(">", b.load_token(ids, index), integer(0))
            total = b.builder.add(b.emit.load_integer(used, 0), b.builder.zext(is_real, ir.IntType(64)))
            b.store_integer(total, used, 0)
        count = Count(b.emit.load_integer(used, 0), 0, longest)
        _, state = emit_layer(b, encoder.layer, look_up(b, encoder.embed, ids, count))
        forward, backward = state[-1] if encoder.stacked else state
        b.copy(b.concatenate([forward[0], backward[0]]), b.row(target, word))
    return target


def embed_vectors(b: ModelBuilder, inputs: Addresses, *, size: int, scale: Scale | None) -> Rows:
    """Vectors in the units of the data, scaled in double precision."""
    return scaled(b, inputs["values"], b.length, size=size, scale=scale)


def scaled(b: ModelBuilder, values: Value, count: Count, *, size: int, scale: Scale | None) -> Rows:
    """Doubles as rows, in deviations from their means; None: as they are."""
    builder, target = b.builder, b.allocate(count, size)
    tables = None if scale is None else [b.constant(part, np.float64) for part in scale]
    with b.emit.loop(0, count.value) as row, b.emit.loop(0, size) as column:
        value = b.load_double(values, builder.add(builder.mul(row, integer(size)), column))
        if tables is not None:
            mean, deviation = (b.load_double(table, column) for table in tables)
            value = builder.fdiv(builder.fsub(value, mean), deviation)
        builder.store(builder.fptrunc(value, b.emit.scalar), b.emit.address(b.row_address(target, row), column))
    return target


def encode(b: ModelBuilder, model: Any, embed: Embed, arguments: Addresses) -> Rows:
    """The outputs of an encoder."""
    if type(model.encoder) is FrameEncoder:
        return encode_frames(b, model.encoder, embed(b, arguments))
    if type(model.encoder) is not Encoder:
        raise unsupported("an encoder of images or videos")
    values, _ = emit_layer(b, model.encoder.layer, embed(b, arguments))
    return values


def classifier(b: ModelBuilder, arguments: Addresses, *, model: Classifier, embed: Embed, scale: Scale | None) -> None:
    """Probabilities of the labels, or numbers if there is a scale of targets."""
    pooled = pool(b, model.pooling, encode(b, model, embed, arguments))
    outputs = emit_module(b, model.output, emit_module(b, model.hidden, pooled))
    if scale is not None:
        store_restored(b, outputs, arguments["numbers"], scale)
        return
    probabilities = Rows(arguments["probabilities"], ONE, outputs.size, outputs.size)
    b.copy(softmax(b, outputs), probabilities)


def tagger(b: ModelBuilder, arguments: Addresses, *, model: Tagger, embed: Embed) -> None:
    """The best label of each element, and its probability."""
    emissions = emit_module(b, model.linear, encode(b, model, embed, arguments))
    labels, probabilities = arguments["labels"], arguments["probabilities"]
    if isinstance(model.output, CRF):
        crf.decode(b, model.output, emissions, labels=labels, probabilities=probabilities)
    else:
        store_best(b, softmax(b, emissions), labels, probabilities)


def store_best(b: ModelBuilder, rows: Rows, labels: Value, values: Value) -> None:
    """The index of the largest number of each row, and that number."""
    emit, builder = b.emit, b.builder
    with emit.loop(0, rows.count.value) as row:
        label, value = largest(b, rows.size, b.row_address(rows, row))
        builder.store(builder.trunc(label, SHORT), b.pointer(labels, row, SHORT), align=4)
        builder.store(value, emit.address(values, row), align=4)


def step_regressor(b: ModelBuilder, arguments: Addresses, *, model: StepRegressor, embed: Embed, scale: Scale) -> None:
    """Numbers at each element."""
    outputs = emit_module(b, model.linear, encode(b, model, embed, arguments))
    store_restored(b, outputs, arguments["numbers"], scale)


def store_restored(b: ModelBuilder, rows: Rows, target: Value, scale: Scale) -> None:
    """Standardised numbers as doubles in their own units."""
    builder = b.builder
    means, deviations = (b.constant(part, np.float64) for part in scale)
    with b.emit.loop(0, rows.count.value) as row, b.emit.loop(0, rows.size) as column:
        value = b.emit.load_scalar(b.emit.address(b.row_address(rows, row), column))
        exact = builder.fmul(builder.fpext(value, DOUBLE), b.load_double(deviations, column))
        exact = builder.fadd(exact, b.load_double(means, column))
        b.store_double(exact, target, builder.add(builder.mul(row, integer(rows.size)), column))
