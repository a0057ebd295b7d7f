"""Convolution over time and frequency, with pooling over frequency."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

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
        y = torch.relu(y if self.norm is None else self.norm(y, mask))
        if self.bands % 2:
            y = nn.functional.pad(y, (0, 1))  # less than any other value, or equal
        y = torch.maximum(y[..., ::2], y[..., 1::2]).transpose(1, 2).flatten(2)
        return y if mask is None else y.masked_fill(~mask.unsqueeze(-1), 0), following

    def extra_repr(self) -> str:
        return f"bands={self.bands}, channels={self.channels}, causal={self.causal}"


class RecordingNorm(nn.Module):
    """Group normalisation of channels over the real frames of each recording."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.groups = GROUPS if channels % GROUPS == 0 else 1
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(
        self,
        y: Tensor,  # (B, C, T, bands)
        mask: Tensor | None,  # (B, T)
    ) -> Tensor:
        grouped = y.unflatten(1, (self.groups, -1))  # (B, groups, C / groups, T, bands)
        if mask is None:
            variance, mean = torch.var_mean(grouped, dim=(2, 3, 4), correction=0, keepdim=True)
        else:
            real = mask[:, None, None, :, None]
            size = mask.sum(dim=1).clamp(min=1) * grouped.shape[2] * grouped.shape[4]
            size = size.view(-1, 1, 1, 1, 1)
            mean = grouped.masked_fill(~real, 0).sum(dim=(2, 3, 4), keepdim=True) / size
            variance = (grouped - mean).masked_fill(~real, 0).square().sum(dim=(2, 3, 4), keepdim=True) / size
        scale = (variance + EPSILON).rsqrt() * self.weight.view(self.groups, -1, 1, 1)  # (B, groups, C / groups, 1, 1)
        shift = self.bias.view(self.groups, -1, 1, 1) - mean * scale
        normalised: Tensor = torch.addcmul(shift, grouped, scale).flatten(1, 2)
        return normalised

    def extra_repr(self) -> str:
        return f"channels={len(self.weight)}, groups={self.groups}"
