"""Findings from the metrics of a training, on records whose diagnosis is known."""

import math
from dataclasses import replace
from typing import Any

import pytest

from seqloom.diagnosis.training_findings import training_findings
from seqloom.diagnosis.training_record import TrainingRecord, training_record


def rows(losses: list[float], dev: list[float], **values: Any) -> list[dict[str, Any]]:
    """A log entry every 10 updates, an evaluation at the end of each fifth."""
    result: list[dict[str, Any]] = []
    for number, loss in enumerate(losses, start=1):
        entry = {"update": 10 * number, "loss": loss, "learning_rate": 1e-3, "gradient_norm": 0.5, "clipped": 0.0}
        result.append(entry | {name: value[number - 1] for name, value in values.items()})
        if number % (len(losses) // len(dev)) == 0:
            index = number // (len(losses) // len(dev)) - 1
            result.append({"update": 10 * number, "dev": {"accuracy": 0.5 + 0.05 * index, "loss": dev[index]}})
    return result


def build(logged: list[dict[str, Any]], **changes: Any) -> TrainingRecord:
    record = training_record(logged, metric="accuracy", higher_is_better=True, clip_norm=1.0, learning_rate=1e-3)
    assert record is not None
    return replace(record, **changes)


def severities(record: TrainingRecord, baseline: float = 0.4) -> dict[str, str]:
    return {finding.name: finding.severity for finding in training_findings(record, {"accuracy": baseline})}


FALLING = [2.0 * 0.6**number + 0.3 for number in range(20)]
DEV = [1.4, 0.8, 0.5, 0.4, 0.39]


def verdict(record: TrainingRecord, name: str, baseline: float = 0.4) -> str:
    (text,) = (each.verdict for each in training_findings(record, {"accuracy": baseline}) if each.name == name)
    return text


def test_a_good_training_is_healthy() -> None:
    record = build(rows(FALLING, DEV))
    expected = dict.fromkeys(("learning", "learning rate", "clipping", "generalization"), "healthy")
    assert severities(record) == expected
    assert (record.updates, record.skipped, record.clipped_share) == (200, 0, 0.0)


def test_nothing_learned() -> None:
    record = build(rows([0.69] * 20, [0.7] * 5))
    found = severities(record, baseline=0.9)
    assert (found["learning"], found["learning rate"]) == ("problem", "problem")
    assert "baseline 0.9" in verdict(record, "learning", baseline=0.9)
    assert "does not fall" in verdict(record, "learning rate")


def test_little_learned() -> None:
    record = build(rows([0.7 - 0.001 * number for number in range(20)], DEV))
    assert severities(record)["learning"] == "warning"
    assert "fell from 0.7 to 0.6815" in verdict(record, "learning")
    rising = build(rows([0.7 + 0.001 * number for number in range(20)], DEV))
    assert "went from 0.7 to 0.7185" in verdict(rising, "learning")


def test_a_single_logged_loss_is_no_sign_of_little_learning() -> None:
    record = build(rows([1.495], [1.2]))
    assert severities(record)["learning"] == "healthy"
    assert verdict(record, "learning").endswith("training loss 1.495.")


def test_the_same_answer_to_everything_is_a_problem() -> None:
    record = build(rows(FALLING, DEV), degenerate="Every prediction is the label 'up'")
    assert verdict(record, "learning").startswith("Every prediction is the label 'up': the model has learned nothing")
    assert severities(record)["learning"] == "problem"


def test_a_learning_rate_that_is_too_high() -> None:
    rising = [2.0, 1.5, 1.4, 1.6, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0] * 2
    assert "rises" in verdict(build(rows(rising[:10], DEV)), "learning rate")
    skipped = build(rows(FALLING, DEV, skipped=list(range(1, 21))))
    assert skipped.skipped == 20
    assert "20 updates were skipped" in verdict(skipped, "learning rate")


def test_a_training_that_ended_too_early() -> None:
    steady = [5.0 - 0.2 * number for number in range(20)]
    assert severities(build(rows(steady, DEV)))["learning rate"] == "warning"
    assert "raise train.epochs" in verdict(build(rows(steady, DEV)), "learning rate")
    timed = build(rows(steady, DEV), finished="0.5 minutes done")
    assert "raise train.minutes" in verdict(timed, "learning rate")
    assert {key for each in training_findings(timed, {}) for key in each.keys if key.startswith("train.m")} == {
        "train.minutes"
    }


def test_clipping_is_weighed_by_updates() -> None:
    logged = rows(FALLING, DEV, clipped=[1.0] * 15 + [0.0] * 5, gradient_norm=[3.0] * 20)
    record = build(logged, optimizer="sgd")
    assert record.clipped_share == pytest.approx(0.75)
    assert severities(record)["clipping"] == "warning"
    assert severities(replace(record, optimizer="adam"))["clipping"] == "healthy"
    assert "75% of the updates were clipped to 1" in verdict(record, "clipping")
    exploding = build(rows(FALLING, DEV, clipped=[1.0] * 20, gradient_norm=[500.0] * 20))
    assert severities(exploding)["clipping"] == "problem"
    spiky = build(rows(FALLING, DEV, gradient_norm=[0.5] * 19 + [50.0]), clip_norm=0.0)
    assert "spikes" in verdict(spiky, "clipping")


def test_groups_without_gradient_are_named() -> None:
    norms = [{"encoder": 0.5, "output": 1.0, "prenet": 0.0}] * 20
    record = build(rows(FALLING, DEV, gradient_norms=norms))
    assert record.group_norms["encoder"][0] == (10, 0.5)
    assert verdict(record, "gradient norms").startswith("prenet got no gradient")
    norms = [{"encoder": 1e-6, "output": 1.0}] * 20
    assert "1000000 times that of encoder" in verdict(build(rows(FALLING, DEV, gradient_norms=norms)), "gradient norms")


def test_overfitting() -> None:
    record = build(rows(FALLING, [1.0, 0.6, 0.5, 0.7, 0.9]))
    assert severities(record)["generalization"] == "warning"
    assert "lowest at update 120 (0.5) and rose to 0.9" in verdict(record, "generalization")
    widening = build(rows(FALLING, [1.2, 1.1, 1.05, 1.04, 1.03]))
    assert "gap to the dev data widens" in verdict(widening, "generalization")


def test_rows_without_a_loss_have_no_record() -> None:
    assert training_record([], metric="loss", higher_is_better=False, clip_norm=0, learning_rate=1) is None
    record = build([{"update": 1, "loss": math.nan}, {"update": 2, "loss": 1.0}, {"update": 3, "doctor": {}}])
    assert record.loss == [(2, 1.0)]
