"""Distributions of the keys of a frame, against loops over keys and sums over all frames."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.models.note_distribution import IndependentNotes, Nade

KEYS = 4


def nade(size: int = 3, keys: int = KEYS) -> Nade:
    torch.manual_seed(1)
    module = Nade(size, keys, units=5)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module.double()


def naive_log_odds(module: Nade, hidden: Tensor, frame: Tensor) -> list[float]:
    """The equations, key by key."""
    values: dict[str, Any] = {name: tensor.detach().numpy() for name, tensor in module.named_parameters()}
    h, x = hidden.numpy(), frame.numpy()
    units = values["unit_bias.weight"] @ h + values["unit_bias.bias"]
    bias = values["bias.weight"] @ h + values["bias.bias"]
    odds = []
    for key in range(len(x)):
        odds.append(float(bias[key] + values["outputs"][key] @ np.tanh(units)))
        units = units + x[key] * values["inputs"][key]
    return odds


def test_nade_is_its_equations() -> None:
    module = nade(keys=9)
    hidden, frames = torch.randn(2, 6, 3).double(), torch.bernoulli(torch.full((2, 6, 9), 0.4)).double()
    frames[0, 0], frames[1, 2] = 0, 1
    with torch.no_grad():
        log_odds = module(hidden, frames)
    for row, step in product(range(2), range(6)):
        expected = naive_log_odds(module, hidden[row, step], frames[row, step])
        assert log_odds[row, step].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("module", [nade(), IndependentNotes(3, KEYS).double()])
def test_the_probabilities_of_all_frames_add_up_to_one_and_are_those_of_samples(module: Any) -> None:
    hidden = torch.randn(3, generator=torch.Generator().manual_seed(2)).double()
    frames = torch.tensor(list(product((0.0, 1.0), repeat=KEYS))).double()
    with torch.no_grad():
        odds = module(hidden.expand(len(frames), -1), frames)
        probabilities = torch.where(frames > 0, odds.sigmoid(), (-odds).sigmoid()).prod(dim=-1)
        many = hidden.expand(20_000, -1)
        drawn = module.sample(many, temperature=1.0, generator=torch.Generator().manual_seed(3))
    assert float(probabilities.sum()) == pytest.approx(1)
    numbers = (drawn @ torch.tensor([8.0, 4.0, 2.0, 1.0]).double()).long()
    shares = torch.bincount(numbers, minlength=16) / 20_000
    assert torch.allclose(shares.double(), probabilities, atol=0.015)  # four standard errors of a share of 0.5


def test_temperature_zero_takes_the_more_probable_value_of_each_key() -> None:
    module, hidden = nade(), torch.randn(1, 3).double()
    with torch.no_grad():
        drawn = module.sample(hidden, temperature=0.0, generator=torch.Generator())
    odds = naive_log_odds(module, hidden[0], drawn[0])
    assert drawn[0].tolist() == [float(value > 0) for value in odds]


def test_no_frames() -> None:
    assert nade()(torch.zeros(0, 3).double(), torch.zeros(0, KEYS).double()).shape == (0, KEYS)
