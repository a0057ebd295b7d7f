"""Images of text lines, read column by column: convolutions, or two-dimensional LSTM layers, over columns and rows."""

from abc import abstractmethod
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.layers.layer import Layer, check_input
from seqloom.layers.recurrent.two_dimensional import TwoDimensionalLSTM


class LineImageConfig(ConfigSection):
    """Layers over the image of a text line; each halves the height and keeps the width."""

    height: int = Field(default=32, ge=1, le=4096, description="Height to which all images are resized, in pixels.")
    layers: int = Field(default=0, ge=0, le=20, description="Number of layers (0: each column of pixels is one frame).")
    channels: int = Field(default=16, ge=1, description="Channels of the first layer; each further one doubles them.")
    model: Literal["convolution", "lstm"] = Field(
        default="convolution",
        description="convolution: 3 × 3 convolutions; lstm: two-dimensional LSTM layers, which read in four directions "
        "(Graves et al. 2007).",
    )

    def build(self, height: int) -> "LineImageEncoder":
        """The layers, for images of this height."""
        if not self.layers:
            raise ValueError("image_encoder.layers is 0, expected at least 1")
        return (LineImageLSTM if self.model == "lstm" else LineImageConvolution)(self, height)


class LineImageEncoder(Layer):
    """Columns of pixels to columns of features: (B, W, H) → (B, W, channels × height).

    Columns see their neighbours on both sides, so a line is read as a whole.
    """

    def forward(
        self,
        x: Tensor,  # (B, W, H)
        mask: Tensor | None = None,  # (B, W)
        state: tuple[()] | None = None,
    ) -> tuple[Tensor, tuple[()]]:
        check_input(x, mask, size=self.input_size, like=next(self.parameters()))
        if state:
            raise TypeError(f"state is {type(state).__name__}, expected None: a line is read as a whole")
        if not x.numel():
            return x.new_zeros(*x.shape[:2], self.output_size), ()
        y = x.unsqueeze(1)  # (B, 1, W, H)
        return self.encode(y, mask).permute(0, 2, 1, 3).flatten(2), ()

    @abstractmethod
    def encode(
        self,
        image: Tensor,  # (B, 1, W, H)
        mask: Tensor | None,  # (B, W)
    ) -> Tensor:  # (B, C, W, rows), zero in the padding
        """Compute the features of an image."""


class LineImageConvolution(LineImageEncoder):
    """3 × 3 convolutions without normalisation: a column depends on its neighbours only, not on other columns."""

    def __init__(self, config: LineImageConfig, height: int) -> None:
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

    def encode(self, image: Tensor, mask: Tensor | None) -> Tensor:
        padding = None if mask is None else ~mask[:, None, :, None]
        y = image if padding is None else image.masked_fill(padding, 0)
        for level in self.levels:
            y = torch.relu(level(y))
            if padding is not None:
                y = y.masked_fill(padding, 0)
        return y


class LineImageLSTM(LineImageEncoder):
    """Two-dimensional LSTM layers (Graves & Schmidhuber 2009): each reads pairs of rows in four directions.

    A feed-forward layer with tanh joins the directions.
    """

    def __init__(self, config: LineImageConfig, height: int) -> None:
        channels, rows = 1, height
        levels, joins = [], []
        for level in range(config.layers):
            width = config.channels << level
            levels.append(TwoDimensionalLSTM(2 * channels, width))
            joins.append(nn.Linear(4 * width, width))
            nn.init.xavier_uniform_(joins[-1].weight, gain=3)  # outputs of an LSTM are small
            nn.init.zeros_(joins[-1].bias)
            channels, rows = width, -(-rows // 2)
        super().__init__(height, channels * rows)
        self.levels = nn.ModuleList(levels)
        self.joins = nn.ModuleList(joins)

    def encode(self, image: Tensor, mask: Tensor | None) -> Tensor:
        grid = image.permute(0, 3, 2, 1)  # (B, rows, W, C)
        for level, join in zip(self.levels, self.joins, strict=True):
            if grid.shape[1] % 2:
                grid = nn.functional.pad(grid, (0, 0, 0, 0, 0, 1))
            pairs = torch.cat([grid[:, ::2], grid[:, 1::2]], dim=-1)  # (B, rows / 2, W, 2 C)
            grid = torch.tanh(join(level(pairs, mask)))
        y = grid.permute(0, 3, 2, 1)
        return y if mask is None else y.masked_fill(~mask[:, None, :, None], 0)
