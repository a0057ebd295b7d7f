"""The settings of training."""

import math

import pytest
from pydantic import ValidationError

from seqloom.config import ConfigError
from seqloom.training.config import TrainConfig


@pytest.mark.parametrize("limit", ["updates", "tokens", "minutes"])
def test_training_needs_a_limit(limit: str) -> None:
    with pytest.raises(ConfigError, match="epochs is 0 and there is no other limit: set updates, tokens or minutes"):
        TrainConfig(epochs=0)
    assert getattr(TrainConfig.model_validate({"epochs": 0, limit: 1}), limit) == 1


@pytest.mark.parametrize("field", ["learning_rate", "minutes", "clip_norm", "weight_decay"])
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_numbers_are_finite(field: str, value: float) -> None:
    with pytest.raises(ValidationError, match="finite number"):
        TrainConfig.model_validate({field: value})
