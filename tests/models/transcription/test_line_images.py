"""Columns of a text line: against a loop over windows; padding."""

import pytest
import torch

from seqloom.models.transcription.line_images import LineImageConfig, LineImageEncoder


def build(layers: int = 2, height: int = 7) -> LineImageEncoder:
    torch.manual_seed(1)
    return LineImageEncoder(LineImageConfig(layers=layers, channels=3), height).double()


def test_convolution_against_a_loop() -> None:
    layer = build(layers=1, height=5)
    x = torch.randn(1, 4, 5, dtype=torch.float64)
    output = layer(x)[0].view(1, 4, 3, 3)  # columns, channels, rows
    (level,) = layer.levels
    padded = torch.zeros(6, 7, dtype=torch.float64)
    padded[1:5, 1:6] = x[0]
    for column in range(4):
        for row in range(3):
            window = padded[column : column + 3, 2 * row : 2 * row + 3]
            expected = ((level.weight[:, 0] * window).sum(dim=(1, 2)) + level.bias).clamp(min=0)  # type: ignore[operator, index]
            torch.testing.assert_close(output[0, column, :, row], expected, atol=1e-13, rtol=0)


def test_padding_and_the_batch_have_no_effect() -> None:
    layer = build()
    x = torch.randn(3, 6, 7, dtype=torch.float64)
    mask = torch.arange(6) < torch.tensor([[6], [2], [0]])
    y, _ = layer(torch.where(mask.unsqueeze(-1), x, float("nan")), mask)
    assert y.shape == (3, 6, layer.output_size)
    assert not y[~mask].any()
    torch.testing.assert_close(y[1:2, :2], layer(x[1:2, :2])[0], atol=1e-13, rtol=0)
    assert layer(x[:, :0])[0].shape == (3, 0, layer.output_size)


def test_invalid_arguments() -> None:
    with pytest.raises(ValueError, match=r"image_encoder\.layers is 0"):
        LineImageEncoder(LineImageConfig(), 8)
    with pytest.raises(ValueError, match=r"x has shape \(1, 4, 6\)"):
        build()(torch.zeros(1, 4, 6, dtype=torch.float64))
