"""Random changes of images in training, so that a network sees each of them in many ways."""

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample


def shift_images(
    images: Tensor,  # (B, H, W, C)
    *,
    mirror: bool,
    shift: int,
) -> Tensor:  # (B, H, W, C)
    """Shift each image at random, repeating its edge, and mirror half of them."""
    batch, height, width, _ = images.shape
    offsets = torch.randint(-shift, shift + 1, (2, batch, 1), device=images.device)
    rows = (torch.arange(height, device=images.device) + offsets[0]).clamp(0, height - 1)  # (B, H)
    columns = (torch.arange(width, device=images.device) + offsets[1]).clamp(0, width - 1)
    if mirror:
        flipped = torch.rand(batch, 1, device=images.device) < 0.5
        columns = torch.where(flipped, width - 1 - columns, columns)
    index = torch.arange(batch, device=images.device).view(-1, 1, 1)
    return images[index, rows.unsqueeze(2), columns.unsqueeze(1)]


def zoom_images(
    images: Tensor,  # (B, H, W, C)
    most: float,
) -> Tensor:  # (B, H, W, C)
    """A random part of each image, enlarged to its size by a factor of 1 to 1 + most."""
    share = 1 / (1 + most * torch.rand(len(images), 1, device=images.device))  # of the sides that is shown
    centers = (1 - share) * (2 * torch.rand(len(images), 2, device=images.device) - 1)  # column and row, within ±1
    transforms = torch.cat([torch.diag_embed(share.expand(-1, 2)), centers.unsqueeze(2)], dim=2)  # (B, 2, 3)
    channels_first = images.permute(0, 3, 1, 2)
    grid = affine_grid(transforms.to(images.dtype), list(channels_first.shape), align_corners=False)
    zoomed = grid_sample(channels_first, grid, padding_mode="border", align_corners=False)
    return zoomed.permute(0, 2, 3, 1)


def jitter_colors(
    images: Tensor,  # (B, H, W, C), with mean 0 and standard deviation 1
    most: float,
) -> Tensor:  # (B, H, W, C)
    """(1 + a) x + b for each channel of each image, with a and b at random within ±most."""
    contrast, brightness = most * (2 * torch.rand(2, len(images), 1, 1, images.shape[3], device=images.device) - 1)
    return images * (1 + contrast) + brightness
