"""Image encoders: a memory for a decoder from convolutions over an image, or from one vector."""

import torch
from pydantic import Field
from torch import Tensor, nn

from seqloom.config import ConfigSection
from seqloom.layers.dropout import Dropout
from seqloom.layers.layer import Memory
from seqloom.models.signals.image_augmentation import jitter_colors, shift_images, zoom_images

GROUPS = 8  # of group normalisation; fewer if they do not divide the channels


class ImageEncoderConfig(ConfigSection):
    """3 × 3 convolutions; each level halves the image and doubles the channels."""

    layers: int = Field(
        default=3, ge=1, le=20, description="Number of levels; with 3, 64 × 64 pixels become 8 × 8 cells."
    )
    channels: int = Field(default=32, ge=1, description="Channels of the first level; each further one doubles them.")
    depth: int = Field(default=1, ge=1, description="Convolutions per level; those after the first are residual.")
    coordinate_channels: bool = Field(
        default=True, description="Append pixel coordinates as input channels (CoordConv, Liu et al. 2018)."
    )
    position_embedding: bool = Field(
        default=True, description="Add learned embeddings of the row and column of each cell."
    )
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout on the cells.")
    random_flip: bool = Field(
        default=False,
        description="In training, mirror half of the images; not suitable if captions mention left and right.",
    )
    random_shift: int = Field(
        default=0, ge=0, description="In training, shift images by up to this many pixels (0: no shift)."
    )
    random_zoom: float = Field(
        default=0.0,
        ge=0,
        le=10,
        description="In training, enlarge images by up to this fraction and show a random part of each (0: no zoom).",
    )
    color_jitter: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="In training, change the contrast of each colour channel by up to this fraction, and its "
        "brightness by up to this fraction of the standard deviation of the training images (0: no change).",
    )

    @property
    def size(self) -> int:
        """Features of a cell."""
        return self.channels << (self.layers - 1)

    def side(self, size: int) -> int:
        """Cells per row of an image with ``size`` pixels per row."""
        return -(-size // (1 << self.layers))


class ImageEncoder(nn.Module):
    """Convolutions over an image: (B, S, S, 3) → a memory of cells, row by row, or of their mean.

    Group normalisation (Wu and He 2018) makes an image independent of the others in its batch.
    """

    def __init__(
        self,
        config: ImageEncoderConfig,
        size: int,  # S, pixels per side
        *,
        mean: bool = False,  # one cell, the mean of all
    ) -> None:
        super().__init__()
        self.config = config
        self.mean = mean
        self.size = config.size
        self.levels = nn.ModuleList()
        channels = 5 if config.coordinate_channels else 3
        for level in range(config.layers):
            width = config.channels << level
            for index in range(config.depth):
                self.levels.append(ConvBlock(channels, width, stride=1 if index else 2))
                channels = width
        side = config.side(size)
        self.cells = 1 if mean else side * side
        self.position_embedding = (
            nn.Parameter(torch.empty(2, side, self.size)) if config.position_embedding and not mean else None
        )
        if self.position_embedding is not None:
            nn.init.normal_(self.position_embedding, std=0.5)  # about the scale of the last convolution's output
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        images: Tensor,  # (B, S, S, 3), with mean 0 and standard deviation 1
        mask: Tensor,  # (B, S), all True: images are not padded
    ) -> Memory:
        return self.encode(*self.embed_inputs(images, mask))

    @property
    def last_layer(self) -> None:
        """There is no layer with a state."""

    def encode(self, vectors: Tensor, mask: Tensor) -> Memory:
        """The cells themselves."""
        return Memory(vectors, mask, ())

    def embed_inputs(self, images: Tensor, mask: Tensor, *, frames: int = 1) -> tuple[Tensor, Tensor]:
        """The cells (B, R, D), row by row, and their mask; in training, ``frames`` images in a row change alike."""
        if self.training and len(images):
            images = self._augment(images, frames)
        x = images.permute(0, 3, 1, 2)  # channels stay last in memory, which is faster
        if self.config.coordinate_channels:
            x = torch.cat([x, _coordinates(x)], dim=1)
        for level in self.levels:
            x = level(x)
        grid = x.permute(0, 2, 3, 1)  # (B, rows, columns, D)
        if self.position_embedding is not None:
            grid = grid + self.position_embedding[0].unsqueeze(1) + self.position_embedding[1]
        cells = grid.flatten(1, 2)
        if self.mean:
            cells = cells.mean(dim=1, keepdim=True)
        return self.dropout(cells), mask.new_ones(cells.shape[:2])

    def _augment(self, images: Tensor, frames: int) -> Tensor:
        config = self.config
        if config.random_flip or config.random_shift:
            images = shift_images(images, mirror=config.random_flip, shift=config.random_shift, frames=frames)
        if config.random_zoom:
            images = zoom_images(images, config.random_zoom, frames=frames)
        return jitter_colors(images, config.color_jitter, frames=frames) if config.color_jitter else images


class ConvBlock(nn.Module):
    """relu(norm(conv(x))), or relu(x + norm(conv(x))) with stride 1."""

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
    """Each vector as a cell of a memory: W v + b."""

    def __init__(self, input_size: int, output_size: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.size = output_size
        self.linear = nn.Linear(input_size, output_size)
        self.dropout = Dropout(dropout)

    @property
    def last_layer(self) -> None:
        """There is no layer with a state."""

    def forward(
        self,
        vectors: Tensor,  # (B, T, D)
        mask: Tensor,  # (B, T)
    ) -> Memory:
        return Memory(self.dropout(self.linear(vectors)), mask, ())


def _coordinates(x: Tensor) -> Tensor:  # (B, C, H, W) → (B, 2, H, W)
    """The row and column coordinates of each pixel, from -1 to 1."""
    rows, columns = (torch.linspace(-1, 1, length, device=x.device, dtype=x.dtype) for length in x.shape[2:])
    return torch.stack(torch.meshgrid(rows, columns, indexing="ij")).expand(len(x), -1, -1, -1)
