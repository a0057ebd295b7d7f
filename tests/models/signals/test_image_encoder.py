"""Image encoders against convolutions and norms in NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.models.signals.image_encoder import (
    ConvBlock,
    ImageEncoder,
    ImageEncoderConfig,
    VectorMemory,
)

CLOSE = 1e-9  # float64, sums of some hundred terms


def array(tensor: Tensor) -> NDArray[np.float64]:
    return tensor.detach().numpy()


def convolve(x: NDArray[Any], level: ConvBlock, *, stride: int) -> NDArray[Any]:  # (H, W, C) → (H', W', D)
    """relu(norm(conv(x))) of one image, pixel by pixel, plus x with stride 1."""
    weight = array(level.convolution.weight)  # (D, C, 3, 3)
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    rows, columns = (-(-length // stride) for length in x.shape[:2])
    y = np.zeros((rows, columns, len(weight)))
    for row in range(rows):
        for column in range(columns):
            window = padded[row * stride : row * stride + 3, column * stride : column * stride + 3]
            y[row, column] = np.einsum("hwc,dchw->d", window, weight)
    for group in np.split(np.arange(len(weight)), level.norm.num_groups):
        part = y[..., group]
        y[..., group] = (part - part.mean()) / np.sqrt(part.var() + level.norm.eps)
    y = y * array(level.norm.weight) + array(level.norm.bias)
    return np.maximum(y + x if stride == 1 else y, 0)


def cells(config: ImageEncoderConfig, size: int = 8, **options: Any) -> ImageEncoder:
    torch.manual_seed(1)
    model = ImageEncoder(config, size, **options).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model.eval()


def images(count: int, size: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    values = torch.randn(count, size, size, 3, generator=generator, dtype=torch.float64)
    return values, torch.ones(count, size, dtype=torch.bool)


@pytest.mark.parametrize(("size", "coordinates", "positions"), [(8, False, True), (8, True, False), (7, True, True)])
def test_cells_against_numpy(size: int, coordinates: bool, positions: bool) -> None:
    config = ImageEncoderConfig(
        layers=2, channels=4, depth=2, coordinate_channels=coordinates, position_embedding=positions
    )
    model = cells(config, size)
    values, mask = images(3, size)
    result = model(values, mask)
    side = config.side(size)
    assert (model.size, result.values.shape, result.mask.shape) == (8, (3, side * side, 8), (3, side * side))
    assert result.mask.all()
    for row, image in enumerate(values.numpy()):
        x = image
        if coordinates:
            line = np.linspace(-1, 1, size)
            x = np.concatenate([x, np.stack(np.meshgrid(line, line, indexing="ij"), axis=2)], axis=2)
        for index, level in enumerate(model.levels):
            assert isinstance(level, ConvBlock)
            x = convolve(x, level, stride=1 if index % 2 else 2)
        assert x.shape == (side, side, 8)
        if model.position_embedding is not None:
            rows, columns = array(model.position_embedding)
            x = x + rows[:, np.newaxis] + columns[np.newaxis]
        np.testing.assert_allclose(array(result.values[row]), x.reshape(-1, 8), rtol=CLOSE, atol=CLOSE)


def test_mean_is_the_mean_of_the_cells() -> None:
    config = ImageEncoderConfig(layers=2, channels=4)
    values, mask = images(3, 8)
    single = cells(config, mean=True)(values, mask)
    many = cells(config.model_copy(update={"position_embedding": False}))(values, mask)
    assert single.mask.shape == (3, 1)
    torch.testing.assert_close(single.values[:, 0], many.values.mean(dim=1))


def test_results_do_not_depend_on_the_batch() -> None:
    model = cells(ImageEncoderConfig(layers=2, channels=6)).train()  # not in training either
    values, mask = images(3, 8)
    alone = model(values[1:2], mask[1:2]).values[0]
    values[0], values[2] = 1e6, float("nan")
    torch.testing.assert_close(model(values, mask).values[1], alone)


@pytest.mark.parametrize(("size", "layers", "side"), [(64, 3, 8), (63, 3, 8), (65, 3, 9), (5, 2, 2), (32, 1, 16)])
def test_number_of_cells(size: int, layers: int, side: int) -> None:
    config = ImageEncoderConfig(layers=layers, channels=1)
    assert config.side(size) == side
    assert cells(config, size)(*images(1, size)).values.shape[1] == side**2


def test_a_vector_is_one_cell() -> None:
    model = VectorMemory(3, 5).double()
    values, mask = torch.randn(2, 1, 3, dtype=torch.float64), torch.ones(2, 1, dtype=torch.bool)
    result = model(values, mask)
    expected = array(values[:, 0]) @ array(model.linear.weight).T + array(model.linear.bias)
    np.testing.assert_allclose(array(result.values[:, 0]), expected, rtol=CLOSE)
    assert result.mask is mask


@pytest.mark.parametrize(
    "options", [{"random_flip": True}, {"random_shift": 1}, {"random_zoom": 0.5}, {"color_jitter": 0.1}]
)
def test_images_change_in_training_only(options: dict[str, Any]) -> None:
    torch.manual_seed(3)
    values, mask = images(20, 5)
    model = cells(ImageEncoderConfig(layers=1, channels=2, **options), 5)
    assert torch.equal(model(values, mask).values, model(values, mask).values)
    model.train()
    assert not torch.equal(model(values, mask).values, model(values, mask).values)
