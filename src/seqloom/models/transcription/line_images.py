"""Images of text lines, read column by column: small convolutions over columns and rows."""

import torch
from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.layers.layer import Layer, check_input


class LineImageConfig(ConfigSection):
    """3 × 3 convolutions over the image of a text line; each halves the height and keeps the width."""

    height: int = Field(default=32, ge=1, le=4096, description="Height to which all images are resized, in pixels.")
    layers: int = Field(
        default=0, ge=0, le=20, description="Number of convolutions (0: each column of pixels is one frame)."
    )
    channels: int = Field(
        default=16, ge=1, description="Channels of the first convolution; each further one doubles them."
    )


class LineImageEncoder(Layer):
    """Columns of pixels to columns of features: (B, W, H) → (B, W, channels × height).

    Each column sees its neighbours on both sides, so a line is read as a whole. There is no normalisation: a column
    depends on its neighbours only, not on padding or other columns.
    """

    def __init__(self, config: LineImageConfig, height: int) -> None:
        if not config.layers:
            raise ValueError("image_encoder.layers is 0, expected at least 1")
        channels, rows = 1, height
        levels = []
        for level in range(config.layers):
            width = config.channels << level
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
            raise TypeError(f"state is {type(state).__name__}, expected None: a line is read as a whole")
        padding = None if mask is None else ~mask[:, None, :, None]
        y = x.unsqueeze(1)  # (B, 1, W, H)
        if not x.numel():
            return x.new_zeros(*x.shape[:2], self.output_size), ()
        if padding is not None:
            y = y.masked_fill(padding, 0)
        for level in self.levels:
            y = torch.relu(level(y))
            if padding is not None:
                y = y.masked_fill(padding, 0)
        return y.permute(0, 2, 1, 3).flatten(2), ()
