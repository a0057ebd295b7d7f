"""The laws of a task: its seven methods on a few examples, from the file to the score."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from seqloom.data.readers.text_files import resolve
from seqloom.metrics.confidence import MetricSums
from seqloom.tasks.task import Task
from seqloom.testing.laws import Law, assert_close, check_laws, require, saved
from seqloom.training.self_trained import CountingModel, SelfTrained

CLOSE = 1e-5
"""float32, since batches of another size are summed in another order."""

EXACT = 1e-9
"""Sums in float64."""


@dataclass(frozen=True)
class TaskCase:
    """A fitted task, its model with random weights in eval mode, and examples to predict."""

    task: Task
    module: nn.Module
    examples: Sequence[Any]
    inputs: Sequence[Any] = ()  # without labels

    @property
    def unfitted(self) -> Task:
        return self.task.model_copy(update={"learned": None})

    def __str__(self) -> str:
        return type(self.task).__name__


def fit(
    task: Task,
    train: str | Path | Sequence[Any],
    *,
    dev: str | Path | Sequence[Any] | None = None,
    inputs: Sequence[Any] = (),
) -> TaskCase:
    """Fit the task, build its model and give it random weights; a counting model counts the training examples."""
    examples = list(task.read(_source(train)))
    require(bool(examples), "found no training examples")
    fitted = task.fit(iter(examples))
    require(fitted.learned is not None, "fit returned a task whose `learned` is None")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        module: Any = fitted.build_model()
        counting = isinstance(module, CountingModel)
        require(
            fitted.is_counting_model is counting,
            f"`is_counting_model` is {fitted.is_counting_model}, but build_model returned a {type(module).__name__}",
        )
        require(
            fitted.is_self_trained is isinstance(module, SelfTrained),
            f"`is_self_trained` is {fitted.is_self_trained}, but build_model returned a {type(module).__name__}",
        )
        if counting:
            module.count(examples)
        for parameter in module.parameters():
            nn.init.normal_(parameter, std=0.4)
    return TaskCase(fitted, module.eval(), examples if dev is None else list(task.read(_source(dev))), inputs)


def _source(source: str | Path | Sequence[Any]) -> Path | Sequence[Any]:
    return resolve(str(source)) if isinstance(source, str | Path) else source


def answers(case: TaskCase, examples: Sequence[Any], *, rows: int = 1000) -> list[Any]:
    """Predict the examples in batches of ``rows`` rows."""
    collected: list[Any] = []
    with torch.no_grad():
        for start in range(0, len(examples), rows):
            batch = examples[start : start + rows]
            predicted = case.task.predict(case.module, case.task.collate(batch)).answers
            require(len(predicted) == len(batch), f"predict: expected {len(batch)} answers, found {len(predicted)}")
            collected += predicted
    return collected


def assert_same_answers(actual: Sequence[Any], expected: Sequence[Any], *, label: str, exact: bool = False) -> None:
    """Require equal answers, except for the rounding of numbers."""
    require(len(actual) == len(expected), f"{label}: expected {len(expected)} answers, found {len(actual)}")
    for row, (left, right) in enumerate(zip(actual, expected, strict=True)):
        if difference := _difference(asdict(left), asdict(right), tolerance=0 if exact else CLOSE):
            raise AssertionError(f"{label}: answer {row}{difference}")


def _difference(actual: Any, expected: Any, *, tolerance: float) -> str:
    """Where two nested values differ; empty if they are equal."""
    if isinstance(expected, dict) and isinstance(actual, dict) and actual.keys() == expected.keys():
        parts = [(f".{key}", actual[key], expected[key]) for key in expected]
    elif isinstance(expected, list | tuple) and isinstance(actual, list | tuple) and len(actual) == len(expected):
        parts = [(f"[{index}]", left, right) for index, (left, right) in enumerate(zip(actual, expected, strict=True))]
    elif isinstance(expected, float) and isinstance(actual, float):
        both = math.isnan(actual) and math.isnan(expected)
        near = math.isclose(actual, expected, rel_tol=tolerance, abs_tol=tolerance)
        return "" if both or near else f": expected {expected!r}, found {actual!r}"
    else:
        return "" if bool(actual == expected) else f": expected {expected!r}, found {actual!r}"
    texts = (f"{name}{text}" for name, a, b in parts if (text := _difference(a, b, tolerance=tolerance)))
    return next(texts, "")


def every_method_works(case: TaskCase) -> None:
    """Examples can be read, collated, predicted and scored; scores are JSON, and the main metric is finite."""
    task = case.task
    for number, example in enumerate(case.examples):
        require(len(example) >= 0, f"example {number} has no length")
        require(bool(example.location.line), f"example {number} has no line number (location.line)")
    require(len(case.examples) > 1, f"found {len(case.examples)} examples, expected at least 2")
    predicted = answers(case, case.examples)
    require(all(isinstance(str(answer), str) for answer in predicted), "an answer has no text (__str__)")
    json.dumps([asdict(answer) for answer in predicted])
    scores = task.score(predicted, case.examples)
    require(
        task.main_metric in scores, f"score has no {task.main_metric!r} (the main metric); it has {', '.join(scores)}"
    )
    value = scores[task.main_metric]
    require(bool(np.isfinite(value)), f"{task.main_metric}: expected a finite number, found {value!r}")
    first, number = next(iter(scores.items()))
    require(isinstance(number, float | int), f"the first score, {first}, is {number!r}, expected a number")
    again = json.loads(json.dumps(scores))
    require(again == scores, f"the scores change when they are written as JSON: expected {scores}, found {again}")


def loss_is_a_sum_over_rows(case: TaskCase) -> None:
    """The loss and the gradient of a batch are the sums over its rows, so that a batch can be split."""
    task, module = case.task, case.module
    batch = task.collate(case.examples)
    whole = task.loss(module, batch)
    alone = [task.loss(module, task.collate([example])) for example in case.examples]
    total, parts = float(whole.total.detach()), sum(float(one.total.detach()) for one in alone)
    require(math.isfinite(total), f"the loss is {total}, expected a finite number")
    require(math.isclose(total, parts, rel_tol=CLOSE), f"loss: expected {parts} (the sum of the rows), found {total}")
    items = sum(one.items for one in alone)
    require(whole.items == items == batch.items, f"items: expected {items}, found {whole.items}; batch {batch.items}")
    require(items > 0, "items is 0: nothing can be learned from these examples")
    parameters = {name: value for name, value in module.named_parameters() if value.requires_grad}
    gradients = [_gradients(one.total, parameters) for one in alone]
    for name, gradient in _gradients(whole.total, parameters).items():
        expected = torch.stack([row[name] for row in gradients]).sum(dim=0)
        distance, allowed = float((gradient - expected).norm()), 10 * CLOSE * max(float(expected.norm()), 1)
        require(
            distance <= allowed,
            f"gradient of {name}: expected the sum of the rows (norm {float(expected.norm()):.6g}), "
            f"found one at a distance of {distance:.3g} from it",
        )


def _gradients(total: torch.Tensor, parameters: dict[str, nn.Parameter]) -> dict[str, torch.Tensor]:
    gradients = torch.autograd.grad(total, list(parameters.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(parameters, gradients, strict=True))


def answers_are_independent(case: TaskCase) -> None:
    """An answer does not depend on the other rows of its batch, on padding, or on its position in the batch."""
    examples = case.examples
    alone = answers(case, examples, rows=1)
    order = np.random.default_rng(0).permutation(len(examples)).tolist()
    assert_same_answers(answers(case, examples), alone, label="all in one batch")
    assert_same_answers(answers(case, examples, rows=7), alone, label="in batches of 7")
    shuffled = answers(case, [examples[index] for index in order], rows=7)
    assert_same_answers(shuffled, [alone[index] for index in order], label="shuffled")
    longest = max(examples, key=len)
    for number, (example, expected) in enumerate(zip(examples, alone, strict=True)):
        beside_longest = answers(case, [example, longest])[:1]
        assert_same_answers(beside_longest, [expected], label=f"example {number} beside the longest one")


def predicting_changes_nothing(case: TaskCase) -> None:
    """``predict`` changes neither weights nor mode nor the random state, and repeats its answers."""
    before = {name: value.clone() for name, value in case.module.state_dict().items()}
    modes = [part.training for part in case.module.modules()]
    rng_state = torch.get_rng_state()
    first = answers(case, case.examples)
    require(torch.equal(rng_state, torch.get_rng_state()), "predict draws random numbers")
    require(modes == [part.training for part in case.module.modules()], "predict changes the mode of the model")
    assert_close(dict(case.module.state_dict()), before, tolerance=0)
    assert_same_answers(answers(case, case.examples), first, label="predicted again", exact=True)


def metric_is_computed_from_sums(case: TaskCase) -> None:
    """The rows of ``metric_sums`` give the main metric, for all examples and for a subset."""
    task, examples = case.task, case.examples
    predicted = answers(case, examples)
    sums = task.metric_sums(predicted, examples)
    if sums is None:
        raise ValueError("metric_sums returned None")
    _assert_metric(sums, sums.rows.sum(axis=0), task, predicted, examples)
    if len(sums.rows) == len(examples):
        chosen = [row for row in range(len(examples)) if row % 3]
        part = [predicted[row] for row in chosen], [examples[row] for row in chosen]
        _assert_metric(sums, sums.rows[chosen].sum(axis=0), task, *part)


def _assert_metric(sums: MetricSums, total: Any, task: Task, predicted: Sequence[Any], examples: Sequence[Any]) -> None:
    value, expected = sums.value(total), task.score(predicted, examples)[task.main_metric]
    require(
        math.isclose(value, expected, rel_tol=EXACT, abs_tol=1e-12),
        f"{task.main_metric} of {len(examples)} examples: expected {expected} (score), found {value} (sums)",
    )


def baseline_is_paired_with_the_model(case: TaskCase) -> None:
    """The rows of ``baseline_sums`` are for the examples of ``metric_sums``, and give the score of the baseline."""
    task, examples = case.task, case.examples
    counts = Counter(target for example in examples for target in task.baseline_targets(example))
    baseline = task.fit_baseline(counts, examples)
    sums = None if baseline is None else task.baseline_sums(baseline, examples)
    own = task.metric_sums(answers(case, examples), examples)
    if baseline is None or sums is None or own is None:
        return
    require(
        sums.rows.shape == own.rows.shape,
        f"baseline_sums: expected rows {own.rows.shape} as of metric_sums, found {sums.rows.shape}",
    )
    expected = task.score_baseline(baseline, examples)[task.main_metric]
    require(
        math.isclose(sums.whole, expected, rel_tol=EXACT, abs_tol=1e-12),
        f"{task.main_metric} of the baseline: expected {expected} (score_baseline), found {sums.whole} (baseline_sums)",
    )


def fitted_state_survives_json(case: TaskCase) -> None:
    """The learned state survives JSON, and the task predicts the same with it."""
    learned: Any = case.task.learned
    text = learned.model_dump_json()
    back = type(learned).model_validate_json(text)
    require(back.model_dump_json() == text, "the learned state changes when it is written as JSON and read back")
    again = replace(case, task=case.task.model_copy(update={"learned": back}))
    expected = answers(case, case.examples)
    assert_same_answers(answers(again, case.examples), expected, label="restored from JSON", exact=True)


def configuration_survives(case: TaskCase) -> None:
    """A task built from the dump of another is equal to it."""
    unfitted = case.unfitted
    again = type(unfitted).model_validate(unfitted.model_dump())
    actual, expected = again.model_dump(), unfitted.model_dump()
    require(actual == expected, f"expected {expected}, found {actual}")


def saved_weights_restore_the_model(case: TaskCase) -> None:
    """A new model with the saved weights predicts the same, bit for bit."""
    fresh = case.task.build_model()
    fresh.load_state_dict(saved(case.module))
    restored = answers(replace(case, module=fresh.eval()), case.examples)
    assert_same_answers(restored, answers(case, case.examples), label="with saved weights", exact=True)


def unfitted_tasks_say_so(case: TaskCase) -> None:
    """``build_model`` and ``collate`` of a task that is not fitted raise a ValueError that mentions fit."""
    unfitted = case.unfitted
    for name, use in (("build_model", unfitted.build_model), ("collate", lambda: unfitted.collate(case.examples))):
        try:
            use()
        except ValueError as error:
            require("fit" in str(error), f"{name}: expected an error that mentions fit, found {error}")
        else:
            raise AssertionError(f"{name} of a task that is not fitted: expected a ValueError, found none")


def inputs_are_predicted(case: TaskCase) -> None:
    """Inputs without labels are predicted, each as if it were alone."""
    examples = list(case.task.read_inputs(case.inputs))
    require(
        len(examples) == len(case.inputs),
        f"read_inputs: expected {len(case.inputs)} examples, found {len(examples)}",
    )
    assert_same_answers(answers(case, examples), answers(case, examples, rows=1), label="together")


LAWS: tuple[Law, ...] = (
    every_method_works,
    answers_are_independent,
    predicting_changes_nothing,
    fitted_state_survives_json,
    configuration_survives,
    saved_weights_restore_the_model,
    unfitted_tasks_say_so,
)


def laws_for(case: TaskCase) -> tuple[Law, ...]:
    """The laws that apply to a task, depending on its optional parts."""
    laws = LAWS
    if not isinstance(case.module, SelfTrained):
        laws += (loss_is_a_sum_over_rows,)
    if case.task.metric_sums(answers(case, case.examples), case.examples) is not None:
        laws += (metric_is_computed_from_sums, baseline_is_paired_with_the_model)
    return (*laws, inputs_are_predicted) if case.inputs else laws


def check_task(
    task: Task,
    train: str | Path | Sequence[Any],  # a file or values for task.read; a few examples are enough
    *,
    dev: str | Path | Sequence[Any] | None = None,  # examples to predict; None: those of train
    inputs: Sequence[Any] = (),  # inputs to predict, without labels
) -> None:
    """Check that a task fulfils its contract on a few examples; raise an AssertionError that names the broken law.

    The task is fitted and its model gets random weights; nothing is trained. The laws: all seven methods work, a loss
    and its gradient are sums over rows, an answer does not depend on the rest of its batch, prediction changes nothing,
    and everything that is saved can be restored.
    """
    case = fit(task, train, dev=dev, inputs=inputs)
    check_laws((every_method_works,), case)
    check_laws(laws_for(case), case)
