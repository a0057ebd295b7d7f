"""Columns of a text line: against a loop over windows; padding."""

from typing import Any

import pytest
import torch

from seqloom.models.signals.line_images import (
    LineImageConfig,
    LineImageConvolution,
    LineImageEncoder,
    LineImageLSTM,
)


def build(model: Any = "convolution", layers: int = 2, height: int = 7) -> LineImageEncoder:
    torch.manual_seed(1)
    return LineImageConfig(layers=layers, channels=3, model=model).build(height).double()


def test_convolution_against_a_loop() -> None:
    layer = build(layers=1, height=5)
    x = torch.randn(1, 4, 5, dtype=torch.float64)
    output = layer(x)[0].view(1, 4, 3, 3)  # columns, channels, rows
    assert isinstance(layer, LineImageConvolution)
    (level,) = layer.levels
    padded = torch.zeros(6, 7, dtype=torch.float64)
    padded[1:5, 1:6] = x[0]
    for column in range(4):
        for row in range(3):
            window = padded[column : column + 3, 2 * row : 2 * row + 3]
            expected = ((level.weight[:, 0] * window).sum(dim=(1, 2)) + level.bias).clamp(min=0)  # type: ignore[operator, index]
            torch.testing.assert_close(output[0, column, :, row], expected, atol=1e-13, rtol=0)


@pytest.mark.parametrize("model", ["convolution", "lstm"])
def test_padding_and_the_batch_have_no_effect(model: str) -> None:
    layer = build(model)
    x = torch.randn(3, 6, 7, dtype=torch.float64)
    mask = torch.arange(6) < torch.tensor([[6], [2], [0]])
    y, _ = layer(torch.where(mask.unsqueeze(-1), x, float("nan")), mask)
    assert y.shape == (3, 6, layer.output_size)
    assert not y[~mask].any()
    torch.testing.assert_close(y[1:2, :2], layer(x[1:2, :2])[0], atol=1e-13, rtol=0)
    assert layer(x[:, :0])[0].shape == (3, 0, layer.output_size)
    gradients = torch.autograd.grad(y.sum(), list(layer.parameters()))
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


def test_lstm_levels_read_pairs_of_rows() -> None:
    layer = build("lstm", height=5)
    assert isinstance(layer, LineImageLSTM)
    assert layer.output_size == 6 * 2  # 5 rows become 3, then 2; 3 channels become 6
    x = torch.randn(1, 4, 5, dtype=torch.float64)
    rows = torch.cat([x, torch.zeros(1, 4, 1, dtype=torch.float64)], dim=2).view(1, 4, 3, 2).transpose(1, 2)
    first = torch.tanh(layer.joins[0](layer.levels[0](rows)))  # (1, 3, 4, 3)
    rows = torch.cat([first, torch.zeros_like(first[:, :1])], dim=1).view(1, 2, 2, 4, 3).transpose(2, 3).flatten(3)
    second = torch.tanh(layer.joins[1](layer.levels[1](rows)))  # (1, 2, 4, 6)
    torch.testing.assert_close(layer(x)[0], second.permute(0, 2, 3, 1).flatten(2))


def test_invalid_arguments() -> None:
    with pytest.raises(ValueError, match=r"image_encoder\.layers is 0"):
        LineImageConfig().build(8)
    with pytest.raises(ValueError, match=r"x has shape \(1, 4, 6\)"):
        build()(torch.zeros(1, 4, 6, dtype=torch.float64))
