"""check_task accepts a correct task, and each law catches a task that breaks it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import Field, field_validator
from tests.testing.broken import Broken, assert_caught, each
from torch import nn

from seqloom.data.batch import Batch
from seqloom.metrics.confidence import MetricSums, ratio_of_sums
from seqloom.models.baseline import Baseline
from seqloom.models.encoder import BidirectionalEncoder
from seqloom.tasks.classify import Classify
from seqloom.tasks.task import Loss, Predictions
from seqloom.testing import check_task
from seqloom.testing import tasks as laws
from seqloom.testing.laws import Law
from seqloom.testing.tasks import TaskCase, fit

LINES = "up it goes high\ndown low\nup above and over it\ndown below\nup high high\ndown it goes under it\n"
INPUTS = ["it goes", "low"]


class WithoutMainMetric(Classify):
    def score(self, *_: Any) -> dict[str, Any]:
        return {"correct": 1.0}


class MeanLoss(Classify):
    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        loss = super().loss(model, batch)
        return loss._replace(total=loss.total / loss.items)


class BatchScaled(Classify):
    def predict(self, model: nn.Module, batch: Batch) -> Predictions:
        predictions = super().predict(model, batch)
        answers = [
            replace(answer, probability=answer.probability / len(predictions.answers)) for answer in predictions.answers
        ]
        return predictions._replace(answers=answers)


class ChangesWeights(Classify):
    def predict(self, model: nn.Module, batch: Batch) -> Predictions:
        with torch.no_grad():
            next(model.parameters()).mul_(0.9)
        return super().predict(model, batch)


class DrawsRandomNumbers(Classify):
    def predict(self, model: nn.Module, batch: Batch) -> Predictions:
        torch.rand(1)
        return super().predict(model, batch)


class WrongSums(Classify):
    def metric_sums(self, _: Sequence[Any], examples: Sequence[Any]) -> Any:
        return ratio_of_sums(np.arange(len(examples)), np.ones(len(examples)))


class UnpairedBaseline(Classify):
    def baseline_sums(self, baseline: Baseline, examples: Sequence[Any]) -> MetricSums:
        return super().baseline_sums(baseline, examples[1:])


class ForgottenLabels(Classify):
    """Predicts from something that is not saved."""

    def predict(self, model: nn.Module, batch: Batch) -> Predictions:
        predictions = super().predict(model, batch)
        name = str(id(self.learned))
        return predictions._replace(answers=[replace(answer, label=name) for answer in predictions.answers])


class Drifting(Classify):
    suffix: str = Field("", description="Grows whenever the task is validated.")

    @field_validator("suffix")
    @classmethod
    def _grow(cls, suffix: str) -> str:
        return f"{suffix}x"


class Unsaved(Classify):
    def build_model(self) -> Any:
        model = super().build_model()
        model.scale = float(torch.rand(()))  # type: ignore[assignment]
        return model

    def predict(self, model: nn.Module, batch: Batch) -> Predictions:
        predictions = super().predict(model, batch)
        scale: Any = model.scale
        return predictions._replace(
            answers=[replace(answer, probability=float(scale)) for answer in predictions.answers]
        )


class AlwaysFitted(Classify):
    def build_model(self) -> Any:
        return nn.Linear(1, 1) if self.learned is None else super().build_model()


class LosesInputs(Classify):
    def read_inputs(self, source: Path | Sequence[Any]) -> Iterator[Any]:
        return iter(list(super().read_inputs(source))[1:])


BROKEN: list[Broken] = [
    (WithoutMainMetric, laws.every_method_works, "score has no 'accuracy'"),
    (MeanLoss, laws.loss_is_a_sum_over_rows, "loss: expected"),
    (BatchScaled, laws.answers_are_independent, "all in one batch: answer 0"),
    (ChangesWeights, laws.predicting_changes_nothing, "expected .*, found"),
    (DrawsRandomNumbers, laws.predicting_changes_nothing, "draws random numbers"),
    (WrongSums, laws.metric_is_computed_from_sums, "accuracy of 6 examples"),
    (UnpairedBaseline, laws.baseline_is_paired_with_the_model, "baseline_sums: expected rows"),
    (ForgottenLabels, laws.fitted_state_survives_json, "restored from JSON: answer 0.label"),
    (Drifting, laws.configuration_survives, "suffix"),
    (Unsaved, laws.saved_weights_restore_the_model, "with saved weights: answer 0.probability"),
    (AlwaysFitted, laws.unfitted_tasks_say_so, "model of a task that is not fitted"),
    (LosesInputs, laws.inputs_are_predicted, "expected 2 examples, found 1"),
]


def make(kind: type[Classify]) -> Classify:
    return kind(name="classify", train="", embedding_size=4, encoder=BidirectionalEncoder(cell="gru", hidden_size=4))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    path.write_text(LINES)
    return path


def case(kind: type[Classify], file: Path) -> TaskCase:
    return fit(make(kind), file, inputs=INPUTS)


@each(BROKEN)
def test_each_law_catches_a_task_that_breaks_it(kind: type[Classify], law: Law, message: str, file: Path) -> None:
    def check() -> None:
        check_task(make(kind), file, inputs=INPUTS)

    assert_caught(law, correct=case(Classify, file), broken=case(kind, file), message=message, check=check)


def test_every_law_is_tested_here(file: Path) -> None:
    assert {law for _, law, _ in BROKEN} == set(laws.laws_for(case(Classify, file)))


def test_a_correct_task_passes(file: Path) -> None:
    check_task(make(Classify), str(file), inputs=INPUTS)


def test_examples_may_be_given_as_values() -> None:
    lines = [(text, label) for label, _, text in (line.partition(" ") for line in LINES.splitlines())]
    check_task(make(Classify), lines, dev=lines[:3])


def test_a_file_without_examples_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises((AssertionError, ValueError), match=r"no training examples|empty"):
        check_task(make(Classify), tmp_path / "empty.txt")


class DeclaredAsCounting(Classify):
    @property
    def is_counting_model(self) -> bool:
        return True


def test_only_counting_models_are_declared_as_such(file: Path) -> None:
    with pytest.raises(AssertionError, match="`is_counting_model` is True, but build_model returned a Classifier"):
        case(DeclaredAsCounting, file)
