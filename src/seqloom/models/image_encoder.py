"""What is seen, as a memory that a decoder looks at: a small stack of convolutions over an image, or one vector."""

import torch
from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.layers.dropout import Dropout
from seqloom.layers.layer import Memory

GROUPS = 8  # of channels that are normalised together, if they can be divided so


class ImageEncoderConfig(ConfigSection):
    """Convolutions of 3 × 3; each level halves the image and doubles the width."""

    layers: int = Field(default=3, ge=1, description="Levels: with 3, 64 × 64 pixels become 8 × 8 cells.")
    channels: int = Field(
        default=32, ge=1, description="Channels of the first level; each further one has twice as many."
    )
    depth: int = Field(default=1, ge=1, description="Convolutions of each level; those after the first are residual.")
    coordinate_channels: bool = Field(
        default=True, description="The convolutions also see where a pixel is (Liu et al. 2018): left, above, …"
    )
    position_embedding: bool = Field(
        default=True, description="Each cell knows its row and its column, by learnt vectors."
    )
    dropout: float = Field(default=0.0, ge=0, lt=1, description="On the cells.")
    random_flip: bool = Field(
        default=False,
        description="In training half of the images are mirrored; not where captions tell left from right.",
    )
    random_shift: int = Field(default=0, ge=0, description="In training images are moved by up to so many pixels.")

    @property
    def size(self) -> int:
        """Width of a cell."""
        return self.channels << (self.layers - 1)

    def side(self, size: int) -> int:
        """Cells in a row of an image of so many pixels."""
        return -(-size // (1 << self.layers))


class ImageEncoder(nn.Module):
    """Convolutions over an image: (B, S, S, 3) → a memory of cells, row by row, or of their mean.

    Channels are normalised in each image alone (Wu and He 2018): the other images of a batch are invisible.
    """

    def __init__(
        self,
        sight: ImageEncoderConfig,
        size: int,  # S, of an image
        *,
        together: bool = False,
    ) -> None:
        super().__init__()
        self.sight = sight
        self.together = together  # one cell, the mean of all
        self.size = sight.size
        self.levels = nn.ModuleList()
        channels = 5 if sight.coordinate_channels else 3
        for level in range(sight.layers):
            width = sight.channels << level
            for number in range(sight.depth):
                self.levels.append(ConvBlock(channels, width, stride=1 if number else 2))
                channels = width
        side = sight.side(size)
        self.place = (
            nn.Parameter(torch.empty(2, side, self.size)) if sight.position_embedding and not together else None
        )
        if self.place is not None:
            nn.init.normal_(self.place, std=0.5)  # about as large as what the last convolution gives
        self.dropout = Dropout(sight.dropout)

    def forward(
        self,
        images: Tensor,  # (B, S, S, 3), of mean 0 and deviation 1
        mask: Tensor,  # (B, S), all true: an image is not padded
    ) -> Memory:
        if self.training and (self.sight.random_flip or self.sight.random_shift):
            images = augment_images(images, mirror=self.sight.random_flip, shift=self.sight.random_shift)
        x = images.permute(0, 3, 1, 2)  # in memory the channels stay last, which is faster
        if self.sight.coordinate_channels:
            x = torch.cat([x, _coordinates(x)], dim=1)
        for level in self.levels:
            x = level(x)
        grid = x.permute(0, 2, 3, 1)  # (B, rows, columns, D)
        if self.place is not None:
            grid = grid + self.place[0].unsqueeze(1) + self.place[1]
        cells = grid.flatten(1, 2)
        if self.together:
            cells = cells.mean(dim=1, keepdim=True)
        return Memory(self.dropout(cells), mask.new_ones(cells.shape[:2]), ())


class ConvBlock(nn.Module):
    """One convolution: relu(norm(conv(x))), and x besides where it fits."""

    def __init__(self, input_size: int, output_size: int, *, stride: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(input_size, output_size, 3, stride=stride, padding=1, bias=False)
        nn.init.kaiming_normal_(self.convolution.weight, nonlinearity="relu")
        groups = next(groups for groups in range(GROUPS, 0, -1) if output_size % groups == 0)
        self.norm = nn.GroupNorm(groups, output_size)
        self.residual = stride == 1

    def forward(self, x: Tensor) -> Tensor:  # (B, C, H, W) → (B, D, H / stride, W / stride)
        y = self.norm(self.convolution(x))
        return torch.relu(x + y if self.residual else y)


class VectorMemory(nn.Module):
    """One vector as a memory of one cell, W v + b."""

    def __init__(self, input_size: int, output_size: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.size = output_size
        self.linear = nn.Linear(input_size, output_size)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        vectors: Tensor,  # (B, 1, D)
        mask: Tensor,  # (B, 1)
    ) -> Memory:
        return Memory(self.dropout(self.linear(vectors)), mask, ())


def augment_images(
    images: Tensor,  # (B, H, W, C)
    *,
    mirror: bool,
    shift: int,
) -> Tensor:  # (B, H, W, C)
    """Each image moved by a chance of its own, its edge repeated, and mirrored or not."""
    batch, height, width, _ = images.shape
    by = torch.randint(-shift, shift + 1, (2, batch, 1), device=images.device)
    rows = (torch.arange(height, device=images.device) + by[0]).clamp(0, height - 1)  # (B, H)
    columns = (torch.arange(width, device=images.device) + by[1]).clamp(0, width - 1)
    if mirror:
        turned = torch.rand(batch, 1, device=images.device) < 0.5
        columns = torch.where(turned, width - 1 - columns, columns)
    which = torch.arange(batch, device=images.device).view(-1, 1, 1)
    return images[which, rows.unsqueeze(2), columns.unsqueeze(1)]


def _coordinates(x: Tensor) -> Tensor:  # (B, C, H, W) → (B, 2, H, W)
    """How far down and how far to the right each pixel is, from -1 to 1."""
    down, right = (torch.linspace(-1, 1, length, device=x.device, dtype=x.dtype) for length in x.shape[2:])
    return torch.stack(torch.meshgrid(down, right, indexing="ij")).expand(len(x), -1, -1, -1)
