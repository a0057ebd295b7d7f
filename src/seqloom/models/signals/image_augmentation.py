"""Random changes of images in training, so that a network sees each of them in many ways.

The frames of a video, which are consecutive images, change alike.
"""

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample


def shift_images(
    images: Tensor,  # (B, H, W, C)
    *,
    mirror: bool,
    shift: int,
    frames: int = 1,  # of each video
) -> Tensor:  # (B, H, W, C)
    """Shift each image at random, repeating its edge, and mirror half of them."""
    batch, height, width, _ = images.shape
    videos = batch // frames
    offsets = torch.randint(-shift, shift + 1, (2, videos, 1), device=images.device).repeat_interleave(frames, dim=1)
    rows = (torch.arange(height, device=images.device) + offsets[0]).clamp(0, height - 1)  # (B, H)
    columns = (torch.arange(width, device=images.device) + offsets[1]).clamp(0, width - 1)
    if mirror:
        flipped = (torch.rand(videos, 1, device=images.device) < 0.5).repeat_interleave(frames, dim=0)
        columns = torch.where(flipped, width - 1 - columns, columns)
    index = torch.arange(batch, device=images.device).view(-1, 1, 1)
    return images[index, rows.unsqueeze(2), columns.unsqueeze(1)]


def zoom_images(
    images: Tensor,  # (B, H, W, C), B > 0
    max_zoom: float,
    *,
    frames: int = 1,  # of each video
) -> Tensor:  # (B, H, W, C)
    """A random part of each image, enlarged to its size by a factor of 1 to 1 + max_zoom."""
    videos = len(images) // frames
    scale = 1 / (1 + max_zoom * torch.rand(videos, 1, device=images.device))  # size of the part
    centers = (1 - scale) * _symmetric(videos, 2, like=images)  # column and row, from -1 to 1
    transforms = torch.cat([torch.diag_embed(scale.expand(-1, 2)), centers.unsqueeze(2)], dim=2)  # (videos, 2, 3)
    transforms = transforms.repeat_interleave(frames, dim=0)
    channels_first = images.permute(0, 3, 1, 2)
    grid = affine_grid(transforms, list(channels_first.shape), align_corners=False).to(images.dtype)
    zoomed: Tensor = grid_sample(channels_first, grid, padding_mode="border", align_corners=False)
    return zoomed.permute(0, 2, 3, 1)


def jitter_colors(
    images: Tensor,  # (B, H, W, C), with mean 0 and standard deviation 1
    max_change: float,
    *,
    frames: int = 1,  # of each video
) -> Tensor:  # (B, H, W, C)
    """(1 + a) x + b for each channel of each image, with a and b at random within ±max_change."""
    shape = (2, len(images) // frames, 1, 1, images.shape[3])
    changes: Tensor = (max_change * _symmetric(*shape, like=images)).repeat_interleave(frames, dim=1)
    contrast, brightness = changes.to(images.dtype).unbind()
    return images * (1 + contrast) + brightness


def _symmetric(*shape: int, like: Tensor) -> Tensor:
    """Random numbers between -1 and 1."""
    return 2 * torch.rand(shape, device=like.device) - 1
