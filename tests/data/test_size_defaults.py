"""Small data get more epochs and smaller batches; what the document sets is respected."""

from typing import Any

import pytest

from seqloom.config import Document
from seqloom.data.size_defaults import EVALUATIONS, training_defaults


def defaults(units: float | None, *overrides: str, **options: Any) -> dict[str, Any]:
    values = training_defaults(Document.empty(overrides), units, **options)
    return {name.removeprefix("train."): value for name, value in values.items()}


@pytest.mark.parametrize(
    ("examples", "batch_size", "epochs"), [(40, 4, 100), (270, 8, 59), (5000, 32, 13), (30_000, 32, 10)]
)
def test_small_data_get_small_batches_and_many_epochs(examples: int, batch_size: int, epochs: int) -> None:
    values = defaults(examples)
    assert (values["batch_size"], values["epochs"]) == (batch_size, epochs)


def test_large_data_get_fewer_epochs() -> None:
    assert defaults(200_000)["epochs"] == 3
    assert defaults(100_000)["epochs"] == round(20_000 / (100_000 / 32))
    assert defaults(50_000_000)["epochs"] == 3


def test_warm_up_is_a_share_of_the_updates() -> None:
    assert defaults(40)["warmup"] == 50  # of 100 epochs of 10 updates
    assert defaults(40, "train.updates=200")["warmup"] == 10
    assert defaults(40, "train.epochs=10")["warmup"] == 5
    assert defaults(30_000)["warmup"] == 200
    assert defaults(30_000, "task.encoder.cell=transformer")["warmup"] == 400


def test_many_short_epochs_do_not_mean_many_evaluations() -> None:
    assert defaults(40)["evaluate_every"] == 1000 / EVALUATIONS
    assert "evaluate_every" not in defaults(40, "train.epochs=20")
    assert "evaluate_every" not in defaults(5000)


def test_epochs_follow_the_batch_size_of_the_document() -> None:
    assert defaults(5000, "train.batch_size=8")["epochs"] == 10
    assert defaults(5000, "train.batch_size=250")["epochs"] == 100


def test_transformers_learn_at_half_the_rate() -> None:
    assert defaults(100)["learning_rate"] == 0.002
    assert defaults(100, 'task.encoder.cell=["lstm", "transformer"]')["learning_rate"] == 0.001
    assert defaults(100, "task.decoder.cell=transformer", layers="task.decoder")["learning_rate"] == 0.001


def test_patience_belongs_to_plateau() -> None:
    assert "patience" not in defaults(100)
    assert defaults(100, "train.schedule=plateau")["patience"] == 8


def test_unknown_data_and_wrong_values() -> None:
    assert defaults(None).keys() == {"batch_size", "learning_rate", "warmup"}
    assert defaults(100, "train.epochs=many", "train.batch_size=-1")["epochs"] == 80
