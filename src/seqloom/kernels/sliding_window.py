"""One step of the window of Graves (2013) over a source, with its gradient. ``slide_naive`` is the readable reference.

For the small arrays of one step, a call of torch costs far more than the arithmetic: the kernel is one call.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.kernels.runtime.differentiation import differentiable_once
from seqloom.kernels.runtime.numba_jit import jit

Floats = NDArray[np.floating[Any]]
Booleans = NDArray[np.bool_]
Step = tuple[Tensor, Tensor, Tensor, Tensor]


def slide_naive(
    raw: Tensor,  # (n, 3 K), logarithms of heights α, sharpnesses β and movements
    position: Tensor,  # (n, K), the centres κ before the step
    values: Tensor,  # (n, S, C), the source, zero in the padding
    mask: Tensor,  # (n, S), True where real
) -> Step:
    """The position (n, K) after a step, its mean (n,) weighted by α, the weights φ (n, S) and the window (n, C)."""
    height, sharpness, movement = raw.exp().chunk(3, dim=-1)
    position = position + movement
    places = torch.arange(mask.shape[1], device=raw.device, dtype=raw.dtype)
    distances = position.unsqueeze(-1) - places  # (n, K, S)
    weight = (height.unsqueeze(-1) * torch.exp(-sharpness.unsqueeze(-1) * distances.square())).sum(dim=1)
    weight = weight.masked_fill(~mask, 0)
    centre = (height * position).sum(dim=1) / height.sum(dim=1)
    return position, centre.detach(), weight, torch.einsum("bu,buc->bc", weight, values)


def slide(raw: Tensor, position: Tensor, values: Tensor, mask: Tensor) -> Step:
    """The same as ``slide_naive``, by a compiled loop where there is one for the tensors."""
    compiled = raw.device.type == "cpu" and raw.dtype in (torch.float32, torch.float64)
    if not compiled or not raw.dtype == position.dtype == values.dtype:
        return slide_naive(raw, position, values, mask)
    step: Step = _Slide.apply(raw, position, values, mask)
    return step


class _Slide(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, raw: Tensor, position: Tensor, values: Tensor, mask: Tensor) -> Step:
        rows, length, size = values.shape
        moved, centre = torch.empty_like(position), raw.new_empty(rows)
        weight, window = raw.new_empty(rows, length), raw.new_empty(rows, size)
        slide_forward(*map(_array, (raw, position, values, mask, moved, centre, weight, window)))
        context.save_for_backward(raw, moved, values, mask, weight)
        context.mark_non_differentiable(centre)
        return moved, centre, weight, window

    @staticmethod
    @differentiable_once
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        raw, moved, values, mask, weight = context.saved_tensors
        to_position, _, to_weight, to_window = gradients
        raw_gradient, position_gradient = torch.empty_like(raw), torch.empty_like(moved)
        arrays = (raw, moved, values, mask, to_position, to_weight, to_window, raw_gradient, position_gradient)
        slide_backward(*map(_array, arrays))
        source = weight.unsqueeze(2) * to_window.unsqueeze(1) if context.needs_input_grad[2] else None
        return raw_gradient, position_gradient, source, None


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().contiguous().numpy()
    return array


@jit
def slide_forward(
    raw: Floats,  # (n, 3 K)
    position: Floats,  # (n, K)
    values: Floats,  # (n, S, C)
    mask: Booleans,  # (n, S)
    moved: Floats,  # (n, K) written
    centre: Floats,  # (n,) written
    weight: Floats,  # (n, S) written
    window: Floats,  # (n, C) written
) -> None:
    rows, components = position.shape
    length, size = values.shape[1:]
    for row in range(rows):
        total, mean = raw[0, 0] * 0, raw[0, 0] * 0  # 0 of their type
        for place in range(length):
            weight[row, place] = 0
        for k in range(components):
            height, sharpness = math.exp(raw[row, k]), math.exp(raw[row, components + k])
            moved[row, k] = position[row, k] + math.exp(raw[row, 2 * components + k])
            total += height
            mean += height * moved[row, k]
            for place in range(length):
                distance = moved[row, k] - place
                weight[row, place] += height * math.exp(-sharpness * distance * distance)
        centre[row] = mean / total
        for feature in range(size):
            window[row, feature] = 0
        for place in range(length):
            if not mask[row, place]:
                weight[row, place] = 0
                continue
            for feature in range(size):
                window[row, feature] += weight[row, place] * values[row, place, feature]


@jit
def slide_backward(
    raw: Floats,  # (n, 3 K)
    moved: Floats,  # (n, K)
    values: Floats,  # (n, S, C)
    mask: Booleans,  # (n, S)
    to_position: Floats,  # (n, K), gradient of the loss for the position after the step
    to_weight: Floats,  # (n, S)
    to_window: Floats,  # (n, C)
    raw_gradient: Floats,  # (n, 3 K) written
    position_gradient: Floats,  # (n, K) written
) -> None:
    rows, components = moved.shape
    length, size = values.shape[1:]
    needed = np.empty(length, dtype=raw.dtype)  # gradient for each weight φ(u)
    for row in range(rows):
        for place in range(length):
            needed[place] = 0
            if mask[row, place]:
                needed[place] = to_weight[row, place]
                for feature in range(size):
                    needed[place] += to_window[row, feature] * values[row, place, feature]
        for k in range(components):
            height, sharpness = math.exp(raw[row, k]), math.exp(raw[row, components + k])
            by_height, by_sharpness, by_position = raw[0, 0] * 0, raw[0, 0] * 0, to_position[row, k]
            for place in range(length):
                distance = moved[row, k] - place
                part = needed[place] * height * math.exp(-sharpness * distance * distance)
                by_height += part
                by_sharpness -= part * sharpness * distance * distance
                by_position -= 2 * part * sharpness * distance
            raw_gradient[row, k] = by_height
            raw_gradient[row, components + k] = by_sharpness
            raw_gradient[row, 2 * components + k] = by_position * math.exp(raw[row, 2 * components + k])
            position_gradient[row, k] = by_position
