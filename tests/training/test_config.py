"""The settings of training."""

import math
from typing import Any

import pytest
from pydantic import ValidationError

from seqloom.config import ConfigError, Document
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


@pytest.mark.parametrize(("schedule", "decay"), [("cosine", 0.02), ("linear", 0.0), ("step", 0.5), ("plateau", 0.5)])
def test_decay_depends_on_the_schedule(schedule: Any, decay: float) -> None:
    assert TrainConfig(schedule=schedule).decay == decay
    assert TrainConfig(schedule=schedule, decay=0.3).decay == 0.3


def test_a_wrong_value_is_reported_without_the_default_that_depends_on_it() -> None:
    with pytest.raises(ConfigError) as error:
        Document.empty(["train.epochs=two", "train.schedule=cosin"]).build(train=TrainConfig)
    for key, reported in (("train.epochs", True), ("train.schedule", True), ("train.decay", False)):
        assert (key in str(error.value)) is reported
