"""Convolution over time and frequency, with pooling over frequency."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from seqloom.layers.convolution import last_elements, past_elements
from seqloom.layers.layer import Layer, check_input

WINDOW = 3  # frames and bands
GROUPS = 4  # of channels that are normalised together
EPSILON = 1e-3  # added to variances


class SpectralConvolution(Layer):
    """max-pool(relu(W * x + b)): a 3 × 3 convolution over frames and bands; pairs of bands become one.

    A voice with a shorter vocal tract has the same pattern some bands higher: the same weights find it there, and the
    pooling forgets its exact place (Abdel-Hamid et al. 2014). The vector of a frame holds its channels one after the
    other, each with all bands. Causal windows end at their frame; others are centred.

    With ``normalize``, W * x + b is normalised over all frames and bands of its recording, in groups of channels (group
    normalisation, Wu & He 2018), and then scaled and moved by a learned weight and bias of each channel. By batch, rows
    would affect each other; by frame, silence would become as loud as speech.
    """

    class State(NamedTuple):
        past: Tensor  # (B, 2, input_size), the last frames read

    def __init__(
        self,
        bands: int,
        *,
        input_channels: int = 1,
        channels: int = 16,
        causal: bool = False,
        normalize: bool = False,
    ) -> None:
        if min(bands, input_channels, channels) < 1:
            sizes = f"bands = {bands}, input_channels = {input_channels}, channels = {channels}"
            raise ValueError(f"expected at least 1 of each, got {sizes}")
        if causal and normalize:
            raise ValueError("normalize needs the whole recording, but a causal layer has only read a part of it")
        output_bands = -(-bands // 2)
        super().__init__(input_channels * bands, channels * output_bands)
        self.bands, self.input_channels, self.channels, self.causal = bands, input_channels, channels, causal
        self.output_bands = output_bands
        self.convolution = nn.Conv2d(input_channels, channels, WINDOW, padding=(0, 1))
        nn.init.kaiming_normal_(self.convolution.weight, nonlinearity="relu")
        self.norm = RecordingNorm(channels) if normalize else None

    def forward(
        self, x: Tensor, mask: Tensor | None = None, state: Any = None
    ) -> tuple[Tensor, "SpectralConvolution.State"]:
        check_input(x, mask, size=self.input_size, like=self.convolution.weight)
        if mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0)
        count = WINDOW - 1
        past = past_elements(state, x, count)
        following = self.State(last_elements(past, x, mask))
        if not x.numel():
            return x.new_zeros(*x.shape[:2], self.output_size), following
        before = count if self.causal else count // 2
        padded = nn.functional.pad(torch.cat([past[:, count - before :], x], dim=1), (0, 0, 0, count - before))
        image = padded.unflatten(2, (self.input_channels, self.bands)).transpose(1, 2)  # (B, C, T + 2, bands)
        y = self.convolution(image)  # (B, channels, T, bands)
        if self.norm is not None:
            y = self.norm(y, mask)
        else:
            first, second = _pairs(y)
            y = torch.relu(torch.maximum(first, second))
        y = y.transpose(1, 2).flatten(2)
        return y if mask is None else y.masked_fill(~mask.unsqueeze(-1), 0), following

    def extra_repr(self) -> str:
        return f"bands={self.bands}, channels={self.channels}, causal={self.causal}"


class RecordingNorm(nn.Module):
    """Group normalisation of channels over the real frames of each recording, then relu and max-pool of pairs of bands.

    One function, because the steps of a chain of them would pass over (B, C, T, bands) values more than twice as often.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.groups = GROUPS if channels % GROUPS == 0 else 1
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(
        self,
        y: Tensor,  # (B, C, T, bands), finite in the padding
        mask: Tensor | None,  # (B, T)
    ) -> Tensor:  # (B, C, T, ⌈bands / 2⌉), zero in the padding
        real = y.new_ones(len(y), y.shape[2]) if mask is None else mask.to(y.dtype)
        pooled: Tensor = _NormalizedPool.apply(y, self.weight, self.bias, real, self.groups)
        return pooled

    def extra_repr(self) -> str:
        return f"channels={len(self.weight)}, groups={self.groups}"


class _NormalizedPool(torch.autograd.Function):
    """relu(max(z_2i, z_2i+1)) with z = w ŷ + b, ŷ = (y - μ) / σ, where μ and σ² are those of a group of channels.

    ∂L/∂y = (w ∂L/∂z - mean(w ∂L/∂z) - ŷ mean(w ŷ ∂L/∂z)) / σ at real frames, with means over the group.
    """

    @staticmethod
    def forward(
        ctx: Any,
        y: Tensor,  # (B, C, T, bands)
        weight: Tensor,  # (C,)
        bias: Tensor,  # (C,)
        real: Tensor,  # (B, T), 1 at real frames, 0 in the padding
        groups: int,
    ) -> Tensor:  # (B, C, T, ⌈bands / 2⌉)
        rows, channels, _, bands = y.shape
        each = channels // groups
        size = real.sum(dim=1).clamp(min=1).view(-1, 1) * each * bands
        frames = real.unsqueeze(1)  # (B, 1, T)
        total, squares = ((part.sum(dim=3) * frames).sum(dim=2).view(rows, groups, -1) for part in (y, y * y))
        mean, square = (part.sum(dim=2) / size for part in (total, squares))  # (B, groups)
        inverse = ((square - mean * mean).clamp(min=0) + EPSILON).rsqrt()
        mean, inverse = (part.repeat_interleave(each, dim=1) for part in (mean, inverse))  # (B, C)
        scale = inverse * weight
        shift = bias - mean * scale
        first, second = _pairs(torch.addcmul(shift[..., None, None], y, scale[..., None, None]))
        pooled = torch.maximum(first, second).clamp_(min=0).mul_(frames.unsqueeze(-1))
        ctx.save_for_backward(y, weight, real, mean, inverse, first >= second, pooled > 0)
        ctx.groups, ctx.size = groups, size
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        y, weight, real, mean, inverse, from_first, positive = ctx.saved_tensors
        gradient = gradient * positive  # also zero in the padding
        parts = gradient * from_first, gradient.masked_fill(from_first, 0)
        products = sum((part * values).sum(dim=(2, 3)) for part, values in zip(parts, _pairs(y), strict=True))
        of_bias = gradient.sum(dim=(2, 3))  # (B, C)
        of_weight = (products - mean * of_bias) * inverse
        of_group = ((part * weight).view(len(y), ctx.groups, -1) for part in (of_bias, of_weight))
        centre, slope = (
            (part.sum(dim=2) / ctx.size).repeat_interleave(y.shape[1] // ctx.groups, 1) for part in of_group
        )
        slope = slope * inverse * inverse
        offset = slope * mean - centre * inverse
        of_y = torch.addcmul(offset[..., None, None], y, -slope[..., None, None]).mul_(real[:, None, :, None])
        scale = (inverse * weight)[..., None, None]
        of_y[..., ::2].addcmul_(parts[0], scale)
        of_y[..., 1::2].addcmul_(parts[1][..., : y.shape[3] // 2], scale)
        return of_y, of_weight.sum(dim=0), of_bias.sum(dim=0), None, None


def _pairs(y: Tensor) -> tuple[Tensor, Tensor]:  # (..., bands) → 2 × (..., ⌈bands / 2⌉)
    """The first and the second band of each pair; a band without another one has 0 beside it."""
    second = y[..., 1::2]
    return y[..., ::2], nn.functional.pad(second, (0, 1)) if y.shape[-1] % 2 else second
