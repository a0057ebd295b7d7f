"""Lines of writing as images, read column by column: small convolutions over the columns and their height."""

import torch
from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.layers.layer import Layer, check_input


class LineImageConfig(ConfigSection):
    """Convolutions of 3 × 3 over an image of a line; each level halves its height, not its columns."""

    height: int = Field(default=32, ge=1, description="Pixels that all images are brought to.")
    layers: int = Field(default=0, ge=0, description="Levels; 0: each column is read as it is.")
    channels: int = Field(
        default=16, ge=1, description="Channels of the first level; each further one has twice as many."
    )


class LineImageEncoder(Layer):
    """Columns of pixels as columns of what is seen there: (B, W, H) → (B, W, channels × height).

    Each column sees its neighbours on both sides, so that a line is read as a whole. Nothing is normalised: an empty
    column stays empty, and the other columns are invisible to it, padding included.
    """

    def __init__(self, look: LineImageConfig, height: int) -> None:
        if not look.layers:
            raise ValueError("layers is 0: there is nothing to look with")
        channels, rows = 1, height
        levels = []
        for level in range(look.layers):
            width = look.channels << level
            convolution = nn.Conv2d(channels, width, 3, stride=(1, 2), padding=1)
            nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
            levels.append(convolution)
            channels, rows = width, -(-rows // 2)
        super().__init__(height, channels * rows)
        self.levels = nn.ModuleList(levels)

    def forward(
        self,
        x: Tensor,  # (B, W, H)
        mask: Tensor | None = None,  # (B, W)
        state: tuple[()] | None = None,
    ) -> tuple[Tensor, tuple[()]]:
        check_input(x, mask, size=self.input_size, like=next(self.parameters()))
        if state:
            raise TypeError(f"state is {type(state).__name__}, wanted none: a line is read as a whole")
        hidden = None if mask is None else ~mask[:, None, :, None]
        y = x.unsqueeze(1)  # (B, 1, W, H)
        if not x.numel():
            return x.new_zeros(*x.shape[:2], self.output_size), ()
        if hidden is not None:
            y = y.masked_fill(hidden, 0)
        for level in self.levels:
            y = torch.relu(level(y))
            if hidden is not None:
                y = y.masked_fill(hidden, 0)
        return y.permute(0, 2, 1, 3).flatten(2), ()
