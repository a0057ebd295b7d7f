"""Findings from the metrics of a training, on records whose diagnosis is known."""

import math
from dataclasses import replace
from typing import Any

import pytest

from seqloom.diagnosis.diagnosis import Finding
from seqloom.diagnosis.training_findings import with_training_findings
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
    return {finding.name: finding.severity for finding in with_training_findings([], record, {"accuracy": baseline})}


FALLING = [2.0 * 0.6**number + 0.3 for number in range(20)]
DEV = [1.4, 0.8, 0.5, 0.4, 0.39]


def verdict(record: TrainingRecord, name: str, baseline: float = 0.4) -> str:
    (text,) = (each.verdict for each in with_training_findings([], record, {"accuracy": baseline}) if each.name == name)
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
    assert verdict(skipped, "learning") == "The model learns: accuracy 0.7 (baseline 0.4)."
    assert set(severities(skipped)) == {"learning", "learning rate"}


GAVE_UP = "the gradient was not finite in 10 updates in a row, the last of them 15"


def diverged(logged: list[dict[str, Any]]) -> TrainingRecord:
    record = training_record(
        logged,
        metric="accuracy",
        higher_is_better=True,
        clip_norm=0,
        learning_rate=3e4,
        diverged=GAVE_UP,
        default_learning_rate=0.002,
    )
    assert record is not None
    return record


def test_nothing_is_healthy_in_a_training_that_diverged() -> None:
    values = {"learning_rate": 3e4, "clipped": 0.0, "gradient_norms": {"encoder": 1e13, "output": 1e12}}
    first = {"update": 5, "loss": 1.44e15, "gradient_norm": 1e13, **values}
    record = diverged([first, {"update": 10, "loss": math.nan, "skipped": 5}])
    assert (record.skipped, record.updates) == (10, 15)  # five of them are in no log entry
    measured = [Finding("stability", "healthy", "", part="encoder"), Finding("units", "healthy", "", part="encoder")]
    found = with_training_findings([Finding("memory", "problem", ""), *measured], record, {})
    assert [each.title for each in found] == ["learning rate", "memory", "clipping", "units (encoder)"]
    assert found[0].verdict == (
        f"Training diverged: {GAVE_UP}. train.learning_rate = 30000 is too high. Try train.learning_rate = 0.002, the "
        "default, with train.clip_norm = 1; seqloom check RUN/config.toml --learning-rate suggests a value."
    )
    assert found[2].verdict.startswith("Gradients explode: their norm is usually 1e+13")
    (only,) = with_training_findings([], diverged([]), {})  # it diverged before the first log entry
    assert (only.name, only.evidence["skipped_updates"]) == ("learning rate", 10)


def test_a_loss_far_above_the_baseline_is_absurd() -> None:
    def found(losses: list[float], baseline: dict[str, float]) -> dict[str, str]:
        record = build(rows(losses, [0.5])[:-1], gradient_norm=[])  # without dev scores
        return {each.name: each.severity for each in with_training_findings([], record, baseline)}

    assert found([40.0] * 3, {"loss": 3.2}) == {"learning rate": "problem"}
    assert found([4.0] * 3, {"loss": 3.2}) == {"learning": "healthy", "learning rate": "warning"}  # a few updates
    assert found([2e6] * 3, {}) == {"learning rate": "problem"}
    assert found([2e6, 1e6, 5e5], {})["learning rate"] == "warning"


@pytest.mark.parametrize(
    ("rate", "optimizer", "default", "expected"),
    [(0.009, "adam", 0.002, "0.003, a third of it"), (0.3, "adam", 0.002, "0.002, the default"),
     (30.0, "sgd", 0.1, "0.1, usual for SGD"), (0.3, "adam", 0.0, "0.1, a third of it")],
)  # fmt: skip
def test_a_usable_learning_rate_is_suggested(rate: float, optimizer: str, default: float, expected: str) -> None:
    record = build(rows(FALLING, DEV, skipped=[1] * 20))
    record = replace(record, peak_learning_rate=rate, optimizer=optimizer, default_learning_rate=default)
    assert verdict(record, "learning rate").startswith("1 update was skipped, because")
    assert f"Try train.learning_rate = {expected}; seqloom check" in verdict(record, "learning rate")


def test_no_finding_raises_a_learning_rate_that_another_lowers() -> None:
    steady = [5.0 - 0.2 * number for number in range(20)]
    falling = rows(steady, DEV, learning_rate=[1e-3] * 19 + [1e-5])
    gates = Finding("gates", "problem", "Lower train.learning_rate", part="encoder", learning_rate="lower")

    def found(record: TrainingRecord, *measured: Finding, baseline: float = 0.4) -> Finding:
        findings = with_training_findings(measured, record, {"accuracy": baseline})
        assert len({each.learning_rate for each in findings} - {""}) <= 1
        return next(each for each in findings if each.name == "learning rate")

    assert "raise train.epochs, or train.learning_rate" in found(build(falling)).verdict
    assert found(build(falling), gates).verdict.endswith("raise train.epochs.")
    assert found(build(falling), gates).keys == ("train.epochs",)
    exploding = build(rows(steady, DEV, learning_rate=[1e-3] * 19 + [1e-5], gradient_norm=[500.0] * 20))
    assert found(exploding).verdict.endswith("raise train.epochs.")
    flat = build(rows([0.69] * 20, [0.7] * 5))
    assert "is too low, or far too high" in found(flat).verdict
    assert "is too high, see the finding gates (encoder)" in found(flat, gates).verdict
    assert "whether a lower one is better, see the finding gates" in found(build(rows(FALLING, DEV)), gates).verdict
    useless = build(falling, peak_learning_rate=300.0, default_learning_rate=0.002)
    assert "300 is too high" in found(useless, gates, baseline=0.9).verdict
    clipped = build(rows(FALLING, DEV, clipped=[1.0] * 20, gradient_norm=[3.0] * 20), optimizer="sgd")
    texts = [
        next(each.verdict for each in with_training_findings(measured, clipped, {}) if each.name == "clipping")
        for measured in ((), (gates,))
    ]
    assert [text.rpartition(": ")[2].split(". ")[1] for text in texts] == [
        "Raise train.clip_norm to 6.",
        "Lower train.learning_rate.",
    ]


def test_a_training_that_ended_too_early() -> None:
    steady = [5.0 - 0.2 * number for number in range(20)]
    assert severities(build(rows(steady, DEV)))["learning rate"] == "warning"
    assert "raise train.epochs" in verdict(build(rows(steady, DEV)), "learning rate")
    timed = build(rows(steady, DEV), finished="0.5 minutes done")
    assert "raise train.minutes" in verdict(timed, "learning rate")
    assert {
        key for each in with_training_findings([], timed, {}) for key in each.keys if key.startswith("train.m")
    } == {"train.minutes"}


def test_clipping_is_weighed_by_updates() -> None:
    logged = rows(FALLING, DEV, clipped=[1.0] * 15 + [0.0] * 5, gradient_norm=[3.0] * 20)
    record = build(logged, optimizer="sgd")
    assert record.clipped_share == pytest.approx(0.75)
    assert severities(record)["clipping"] == "warning"
    assert severities(replace(record, optimizer="adam"))["clipping"] == "healthy"
    assert "75\N{NO-BREAK SPACE}% of all updates were clipped to 1; in the 20 updates" in verdict(record, "clipping")
    assert "at most 3" in verdict(record, "clipping")
    unlogged = build(rows(FALLING, DEV, clipped=[0.45] * 20, gradient_norm=[0.919] * 20))
    assert "whose norm is logged it was usually 0.919." in verdict(unlogged, "clipping")
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


def test_longer_training_is_not_advised_where_the_dev_error_rises() -> None:
    steep = [1.0 - 0.04 * number for number in range(20)]
    assert "raise train.epochs" in verdict(build(rows(steep, DEV)), "learning rate")
    rising = rows(steep, [0.5, 0.6, 0.7, 0.8, 0.9])
    assert "raise train.epochs" in verdict(build(rising), "learning rate")  # accuracy rises with the loss
    worse = [
        row | {"dev": row["dev"] | {"accuracy": 1 - row["dev"]["accuracy"]}} if "dev" in row else row for row in rising
    ]
    found = verdict(build(worse), "learning rate")
    assert "the dev loss has risen since update" in found
    assert found.endswith("longer training does not help.")


def test_rows_without_a_loss_have_no_record() -> None:
    assert training_record([], metric="loss", higher_is_better=False, clip_norm=0, learning_rate=1) is None
    record = build([{"update": 1, "loss": math.nan}, {"update": 2, "loss": 1.0}, {"update": 3, "doctor": {}}])
    assert record.loss == [(2, 1.0)]


def test_a_training_of_a_few_updates_is_named_as_the_reason() -> None:
    record = build(rows([2.0, 1.99], [0.2]))
    assert record.updates < 50
    found = {each.name: each for each in with_training_findings([], record, {"accuracy": 0.5})}
    assert found["learning rate"].verdict == (
        f"The training made {record.updates} updates, too few to learn much, or to judge train.learning_rate: raise "
        f"{record.limit}."
    )
    assert "See the finding learning rate" in found["learning"].verdict
    assert found["learning"].keys == found["learning rate"].keys == (record.limit,)
