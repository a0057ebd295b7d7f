"""Images and videos: convolutions over pixels, inside the graph."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from seqloom.layers.recurrent.two_dimensional import TwoDimensionalLSTM
from seqloom.models.signals.encoders import FrameImages
from seqloom.models.signals.image_encoder import ConvBlock, ImageEncoder
from seqloom.models.signals.line_images import LineImageConvolution, LineImageLSTM
from seqloom.onnx.graph import INTEGER, Graph, Value
from seqloom.onnx.inputs import Scale, lengths_input, scaled
from seqloom.onnx.modules import Rows, State, array, emit_layer, emit_module, emits, emits_layer

BYTE = np.dtype(np.uint8)


def image_input(graph: Graph, images: ImageEncoder, *, size: int, scale: Scale | None) -> tuple[Value, Rows]:
    """Images (B, size, size, 3) of 0 to 255 as their cells, row by row."""
    pixels = scaled(graph.input("pixels", BYTE, ["batch", size, size, 3]), scale)
    cells = _cells(images, pixels)
    return cells, Rows.of(cells, graph.full(images.cells, cells.size(0), dtype=INTEGER))


def video_input(graph: Graph, images: FrameImages, *, size: int, scale: Scale | None) -> tuple[Value, Rows]:
    """Videos (B, T, size, size, 3) of 0 to 255 as one vector for each image."""
    pixels = scaled(graph.input("frames", BYTE, ["batch", "time", size, size, 3]), scale)
    vectors = emit_frame_images(images, pixels)
    rows = Rows.of(vectors, lengths_input(graph))
    return rows.clear_padding(vectors), rows


def padded_frames(rows: Any) -> dict[str, NDArray[Any]]:
    """Videos as ``frames``, padded with white, and their ``lengths``."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    frames = np.full((len(rows), lengths.max(), *rows[0].shape[1:]), 255, np.uint8)
    for index, row in enumerate(rows):
        frames[index, : len(row)] = row
    return {"frames": frames, "lengths": lengths}


@emits(FrameImages)
def emit_frame_images(images: FrameImages, frames: Value) -> Value:  # (B, T, S, S, 3) → (B, T, D)
    size = frames.size(2)
    flat = frames.reshape(-1, size, size, 3)
    cells = _cells(images.images, flat).reshape(0, -1)
    vectors = emit_module(images.linear, cells).apply("Relu")
    return vectors.reshape(frames.size(0), frames.size(1), images.size)


def _cells(encoder: ImageEncoder, images: Value) -> Value:  # (B, S, S, 3) → (B, R, D)
    graph, config = images.graph, encoder.config
    x = images.transpose(0, 3, 1, 2)
    if config.coordinate_channels:
        x = graph.concatenate([x, _coordinates(x)], axis=1)
    for level in encoder.levels:
        x = emit_module(level, x)
    grid = x.transpose(0, 2, 3, 1)
    if encoder.position_embedding is not None:
        rows, columns = array(encoder.position_embedding)
        grid = grid + (rows[:, np.newaxis] + columns)
    cells = grid.reshape(0, -1, encoder.size)
    return graph.call("ReduceMean", cells, np.array([1]), keepdims=1) if encoder.mean else cells


def _coordinates(x: Value) -> Value:  # (B, C, H, W) → (B, 2, H, W)
    """The row and column coordinates of each pixel, from -1 to 1; images are square."""
    graph, size = x.graph, x.size(2)
    steps = graph.range(size).cast(x.dtype) / (size - 1).cast(x.dtype) * 2.0 - 1.0
    shape = (x.size(0), 1, size, size)
    return graph.concatenate([steps.unsqueeze(0, 1, 3).expand(*shape), steps.unsqueeze(0, 1, 2).expand(*shape)], axis=1)


@emits(ConvBlock)
def emit_block(block: ConvBlock, x: Value) -> Value:
    y = emit_module(block.norm, emit_module(block.convolution, x))
    return (x + y if block.residual else y).apply("Relu")


@emits(nn.Conv2d)
def emit_convolution(convolution: nn.Conv2d, x: Value) -> Value:
    operands = [array(convolution.weight)] + ([] if convolution.bias is None else [array(convolution.bias)])
    padding = [int(size) for size in convolution.padding]
    return x.graph.call("Conv", x, *operands, strides=list(convolution.stride), pads=[*padding, *padding])


@emits(nn.GroupNorm)
def emit_group_norm(norm: nn.GroupNorm, x: Value) -> Value:  # (B, C, H, W)
    graph, groups = x.graph, norm.num_groups
    shape = graph.call("Shape", x, dtype=INTEGER)
    ones, zeros = np.ones(groups, np.float32), np.zeros(groups, np.float32)
    normalized = graph.call("InstanceNormalization", x.reshape(0, groups, -1), ones, zeros, epsilon=norm.eps)
    restored = graph.call("Reshape", normalized, shape)
    return restored * array(norm.weight)[:, np.newaxis, np.newaxis] + array(norm.bias)[:, np.newaxis, np.newaxis]


@emits_layer(LineImageConvolution)
def emit_line_convolution(
    graph: Graph, layer: LineImageConvolution, x: Value, rows: Rows, _state: State
) -> tuple[Value, State]:  # (B, W, H) → (B, W, C × rows)
    real = rows.mask.unsqueeze(1, 3)
    y = graph.where(real, x.unsqueeze(1), 0.0)
    for level in layer.levels:
        y = graph.where(real, emit_module(level, y).apply("Relu"), 0.0)
    columns = y.transpose(0, 2, 1, 3)
    return columns.reshape(0, 0, layer.output_size), ()


@emits_layer(LineImageLSTM)
def emit_line_lstm(
    graph: Graph, layer: LineImageLSTM, x: Value, rows: Rows, _state: State
) -> tuple[Value, State]:  # (B, W, H) → (B, W, C × rows)
    grid, height, channels = x.transpose(0, 2, 1).unsqueeze(3), layer.input_size, 1  # (B, H, W, 1)
    batch, width = x.size(0), x.size(1)
    level: Any
    join: Any
    for level, join in zip(layer.levels, layer.joins, strict=True):
        if height % 2:
            grid = graph.concatenate([grid, graph.full(0.0, batch, 1, width, channels)], axis=1)
        height = -(-height // 2)
        pairs = grid.reshape(batch, height, 2, width, channels).transpose(0, 1, 3, 2, 4)
        pairs = pairs.reshape(batch, height, width, 2 * channels)
        grid = emit_module(join, _read_in_four_directions(level, pairs, rows)).apply("Tanh")
        channels = join.out_features
    columns = grid.transpose(0, 2, 3, 1).reshape(batch, width, layer.output_size)
    return rows.clear_padding(columns), ()


def _read_in_four_directions(layer: TwoDimensionalLSTM, x: Value, rows: Rows) -> Value:  # (B, R, W, D) → (B, R, W, 4 H)
    """A loop over the rows of an image; a recurrent layer reads each, with what the row above has computed."""
    graph, size = x.graph, layer.hidden_size
    projected = emit_module(layer.input, graph.where(rows.mask.unsqueeze(1, 3), x, 0.0)).transpose(1, 0, 2, 3)
    above = graph.full(0.0, x.size(0), x.size(2), 2 * size)
    outputs = []
    for index, (direction, part) in enumerate(zip(layer.directions, projected.split(4), strict=True)):

        def read(
            states: list[Value], elements: list[Value], direction: nn.Module = direction
        ) -> tuple[list[Value], list[Value]]:
            values, _ = emit_layer(graph, direction, graph.concatenate([*elements, *states]), rows)
            return [values], [values.part(-1, 0, size)]

        _, (hidden,) = graph.scan(read, [above], [part], reverse=index >= 2)
        outputs.append(hidden)
    return graph.concatenate(outputs).transpose(1, 0, 2, 3)
