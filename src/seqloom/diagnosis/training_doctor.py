"""The doctor during a training: every few evaluations, on a fixed part of the dev data."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from seqloom.data.batch import Batch
from seqloom.diagnosis.diagnosis import Diagnosis
from seqloom.diagnosis.doctor import diagnose
from seqloom.diagnosis.run_doctor import make_batch, task_names
from seqloom.layers.layer_error import describe_error
from seqloom.run_config import Config
from seqloom.training.progress import Progress

TARGETS = 64
"""Losses whose gradients are measured each time: enough to see trouble, and a matter of a second."""


class Examination(NamedTuple):
    """What the doctor says at one evaluation."""

    summary: dict[str, Any] | None = None  # for the record of the training; None: it was not called
    warning: str = ""  # the problems that it had not reported before


class TrainingDoctor:
    """Sees all events of a training run, and examines the model at every ``train.doctor_every``-th evaluation.

    It sees the weights in training, also where evaluations average them.
    """

    def __init__(
        self,
        config: Config,
        module: nn.Module,
        dev: Sequence[Any],
        *,
        evaluations: int = 0,  # done before the training was resumed
    ) -> None:
        self._config, self._module, self._evaluations = config, module, evaluations
        self._reported: set[str] = set()
        self._batch: Batch | None = None
        self._refusal = ""
        if config.train.doctor_every and dev and not config.task.is_self_trained:
            try:
                self._batch = make_batch(config, dev)[0].to(config.train.device)
            except ValueError as error:  # the training goes on without it
                self._refusal = f"doctor: the model cannot be examined: {error}"

    def watch(self, event: Progress) -> Examination:
        """Examine the model if it is time."""
        if event.evaluation is None or self._batch is None:
            refusal, self._refusal = self._refusal, ""
            return Examination(warning=refusal)
        self._evaluations += 1
        if self._evaluations % self._config.train.doctor_every:
            return Examination()
        try:
            diagnosis = self._diagnose(self._batch)
        except (RuntimeError, TypeError, ValueError) as error:  # such as a custom layer without second call
            self._batch = None
            return Examination(warning=f"doctor: the model cannot be examined: {describe_error(error)}")
        worse = [each for each in diagnosis.findings if each.severity == "problem" and each.title not in self._reported]
        self._reported.update(finding.title for finding in worse)
        return Examination(diagnosis.summary(), " ".join(f"doctor: {finding.verdict}" for finding in worse))

    def _diagnose(self, batch: Batch) -> Diagnosis:
        task, module = self._config.task, self._module

        def loss() -> Tensor:
            return task.loss(module, batch).total

        return diagnose(module, loss, name=task.name, names=task_names(task), targets=TARGETS)
