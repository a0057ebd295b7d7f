"""What holds for every task that exists."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from tests.contracts.tiny import CASES, build
from torch import nn

from seqloom import config, tasks, workflow
from seqloom.checkpoint import Snapshot
from seqloom.data.readers.text_files import resolve
from seqloom.evaluation import predict_all
from seqloom.model import Model, load
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.tasks.task import Task
from seqloom.training.config import TrainConfig
from seqloom.training.progress import Progress
from seqloom.training.self_trained import CountingModel, SelfTrained

CLOSE = 1e-5  # float32, where products of other sizes are summed in another order


class Fitted(NamedTuple):
    config: Config
    module: nn.Module  # with random weights, or counted
    examples: list[Any]

    def answers(self, examples: Sequence[Any], *, rows: int = 1000) -> list[dict[str, Any]]:
        with torch.no_grad():
            return [
                asdict(answer)
                for start in range(0, len(examples), rows)
                for answer in self.config.task.predict(
                    self.module, self.config.task.collate(examples[start : start + rows])
                ).answers
            ]


def fit(name: str, folder: Path) -> Fitted:
    found = build(CASES[name], folder)
    train = list(found.task.read(resolve(found.task.train)))
    found = found._replace(task=found.task.fit(train))
    torch.manual_seed(1)
    module = found.task.build_model()
    if isinstance(module, CountingModel):
        module.count(train)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4)
    return Fitted(found, module.eval(), list(found.task.read(resolve(found.task.dev))))


@pytest.fixture(params=CASES)
def fitted(request: pytest.FixtureRequest, tmp_path: Path) -> Fitted:
    return fit(request.param, tmp_path)


def close(found: Any, wanted: Any) -> bool:
    """The same words, and the same numbers but for the last digits."""
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(close(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(map(close, found, wanted))
    if isinstance(wanted, float):
        return bool(found == pytest.approx(wanted, rel=CLOSE, abs=CLOSE, nan_ok=True))
    return bool(found == wanted)


def test_every_task_has_an_entry() -> None:
    missing = set(tasks.names()) - {case.name for case in CASES.values()}
    assert not missing, f"{', '.join(missing)}: write tiny data for it into tests/contracts/tiny.py"


def test_from_a_file_to_a_score(fitted: Fitted) -> None:
    task = fitted.config.task
    assert all(len(example) >= 0 and example.place.line for example in fitted.examples)
    with torch.no_grad():
        answers = task.predict(fitted.module, task.collate(fitted.examples)).answers
    assert len(answers) == len(fitted.examples)
    assert all(isinstance(str(answer), str) for answer in answers)
    scores = task.score(answers, fitted.examples)
    assert np.isfinite(scores[task.main_metric])
    assert isinstance(next(iter(scores.values())), float | int)  # for the learning curve
    assert json.loads(json.dumps(scores)) == scores


def variants(task: Task) -> list[Task]:
    """The task with each metric that it can be judged by."""
    field = type(task).model_fields.get("best_by")
    chosen = []
    for name in get_args(field.annotation) if field else ():
        with suppress(ValidationError):  # of other symbols
            type(task).model_validate({**task.model_dump(), "best_by": name})
            chosen.append(task.model_copy(update={"best_by": name}))
    return chosen or [task]


def test_the_metric_is_made_of_sums_over_examples(fitted: Fitted) -> None:
    examples = fitted.examples
    found = predict_all(fitted.config, fitted.module, examples)
    chosen = [row for row in range(len(examples)) if row % 3]
    for task in variants(fitted.config.task):
        sums = task.metric_sums(found, examples)
        assert sums is not None
        assert sums.whole == pytest.approx(task.score(found, examples)[task.main_metric], rel=1e-9)
        if len(sums.rows) == len(examples):
            part = task.score([found[row] for row in chosen], [examples[row] for row in chosen])
            assert sums.value(sums.rows[chosen].sum(axis=0)) == pytest.approx(part[task.main_metric], rel=1e-9)


@pytest.mark.parametrize("name", ["language_model", "language_model, transformer", "forecast, every_step"])
def test_joined_and_cut_the_sums_are_still_those_of_examples(name: str, tmp_path: Path) -> None:
    fitted = fit(name, tmp_path)
    task, examples = fitted.config.task, fitted.examples
    for batch in (1, 4, 5):
        train = fitted.config.train.model_copy(update={"steps": 5, "batch": batch})
        found = predict_all(fitted.config._replace(train=train), fitted.module, examples)
        sums = task.metric_sums(found, examples)
        assert sums is not None
        assert sums.whole == pytest.approx(task.score(found, examples)[task.main_metric], rel=1e-9)
        assert len(sums.rows) == len(examples)


def test_the_loss_of_a_batch_is_the_sum_over_its_rows(fitted: Fitted) -> None:
    task = fitted.config.task
    if isinstance(fitted.module, SelfTrained):
        pytest.skip("a self-trained model has no loss function")
    whole = task.loss(fitted.module, task.collate(fitted.examples))
    alone = [task.loss(fitted.module, task.collate([example])) for example in fitted.examples]
    assert float(whole.total.detach()) == pytest.approx(sum(float(one.total.detach()) for one in alone), rel=CLOSE)
    assert whole.items == sum(one.items for one in alone) == task.collate(fitted.examples).items
    assert whole.items > 0
    parameters = [parameter for parameter in fitted.module.parameters() if parameter.requires_grad]
    gradients = [torch.autograd.grad(one.total, parameters, materialize_grads=True) for one in alone]
    wanted = torch.autograd.grad(whole.total, parameters, materialize_grads=True)
    for found, parts in zip(wanted, zip(*gradients, strict=True), strict=True):
        assert float((found - torch.stack(parts).sum(dim=0)).norm()) <= 10 * CLOSE * max(float(found.norm()), 1)


def test_batch_mates_and_padding_are_invisible(fitted: Fitted) -> None:
    examples = fitted.examples
    alone = fitted.answers(examples, rows=1)
    order = np.random.default_rng(0).permutation(len(examples)).tolist()
    shuffled = fitted.answers([examples[index] for index in order], rows=7)
    assert close(fitted.answers(examples), alone)
    assert close(fitted.answers(examples, rows=7), alone)
    assert close(shuffled, [alone[index] for index in order])
    longest = max(examples, key=len)
    for example, wanted in zip(examples, alone, strict=True):
        assert close(fitted.answers([example, longest])[0], wanted)


def test_what_was_learnt_comes_back_from_json(fitted: Fitted) -> None:
    task = fitted.config.task
    assert task.learned is not None
    text = task.learned.model_dump_json()
    learned = type(task.learned).model_validate_json(text)
    assert learned.model_dump_json() == text
    again = fitted._replace(config=fitted.config._replace(task=task.model_copy(update={"learned": learned})))
    assert again.answers(fitted.examples) == fitted.answers(fitted.examples)


def test_a_configuration_comes_back_from_its_text(fitted: Fitted) -> None:
    text = fitted.config.text()
    again = Config.build(config.parse(text, "config.toml"))
    assert again.text() == text
    assert again == fitted.config._replace(task=fitted.config.task.model_copy(update={"learned": None}))


def test_a_template_can_be_read(fitted: Fitted) -> None:
    kind = tasks.find(fitted.config.name)
    text = config.template({"task": kind, "train": TrainConfig}, kind.recommended)
    assert Config.build(config.parse(text, "config.toml")).name == fitted.config.name


def test_a_saved_model_answers_the_same(fitted: Fitted, tmp_path: Path) -> None:
    assert fitted.config.task.learned is not None
    learned = fitted.config.task.learned.model_dump_json()
    run = Run.create(tmp_path / "run", config=fitted.config.text(), learned=learned, environment={})
    run.save("best", Snapshot(fitted.module.state_dict(), {}, {}))
    model = load(tmp_path / "run")
    dev = resolve(fitted.config.task.dev)
    again = Fitted(model.config, model.module, list(model.task.read(dev)))
    assert again.answers(again.examples) == fitted.answers(fitted.examples)


def test_questions_without_answers_are_answered(fitted: Fitted, request: pytest.FixtureRequest) -> None:
    questions = CASES[request.node.callspec.params["fitted"]].questions
    model = Model(fitted.config, fitted.module)
    before = torch.is_grad_enabled()
    answers = model.predict(questions)
    assert torch.is_grad_enabled() is before
    assert len(answers) == len(questions)
    one_by_one = [answer for question in questions for answer in model.predict([question])]
    assert close([asdict(answer) for answer in answers], [asdict(answer) for answer in one_by_one])


def test_a_task_that_explains_nothing_shows_its_prediction(fitted: Fitted) -> None:
    """The defaults of Task, which hold for a task that overrides none of them."""
    task, example = fitted.config.task, fitted.examples[0]
    with torch.no_grad():
        found = Task.explain(task, fitted.module, example)
    assert [asdict(found.prediction)] == fitted.answers([example])
    assert found.headline == str(found.prediction)
    assert found.notes == [f"the task {task.name} has no explanation of its own; --gates draws its recurrent layers"]
    assert Task.explain_together(task, fitted.module, [example]) is None
    assert Task.input_tokens(task, example) == []


def test_explanations_are_data(fitted: Fitted, tmp_path: Path) -> None:
    """Every task explains a prediction as data, and draws predictions only into the folder it is given."""
    task, example = fitted.config.task, fitted.examples[0]
    with torch.no_grad():
        found = task.explain(fitted.module, example, beam=task.searches, heads=True)
    assert found.task == task.name
    json.dumps(found.data())
    tokens = task.input_tokens(example)
    assert tokens == [] or len(tokens) == task.collate([example]).inputs.mask.shape[1]
    files = set(tmp_path.rglob("*"))
    model = Model(fitted.config, fitted.module)
    (tmp_path / "plots").mkdir()
    predict = partial(_predict, model)
    task.draw_predictions(fitted.examples, tmp_path / "plots", predict=predict)
    assert {path.parent for path in tmp_path.rglob("*.png") if path not in files} <= {tmp_path / "plots"}


def _predict(model: Model, examples: Sequence[Any]) -> list[Any]:
    return [answer for batch in model.predict_batches(iter(examples)) for answer in batch]


def test_a_fresh_task_says_that_it_is_not_fitted(fitted: Fitted) -> None:
    fresh = fitted.config.task.model_copy(update={"learned": None})
    for use in (fresh.build_model, lambda: fresh.collate(fitted.examples)):
        with pytest.raises(ValueError, match=r"call fit first|not fitted"):
            use()


# Law 6: a run that was left goes on bit for bit


class Left(Exception):
    """Raised to leave a training."""


def contents(run: Run) -> tuple[Any, ...]:
    best, last = run.load("best"), run.load("last")
    facts = {name: value for name, value in last.facts.items() if name != "seconds"}
    parts = [{name: part[name].tolist() for name in sorted(part)} for part in (best.model, last.model, last.training)]
    return repr(parts), repr(facts), repr(best.facts), run.rows()


TRAINED = [
    *tasks.names(),
    "language_model, both ways",
    "tag, in context",
    "tag, one way",
    "language_model, window",
    "forecast, every_step",
]


@pytest.mark.parametrize("name", TRAINED)
def test_a_run_that_is_left_anywhere_goes_on_bit_for_bit(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("os.fsync", os.fstat)
    monkeypatch.setattr("seqloom.run_plots.draw", lambda *_, **__: None)
    case = CASES[name]
    options: dict[str, Any] = {"updates": 6, "evaluate_every": 4, "average": 2, "accumulate": 2, "save_minutes": 1e-9}
    if case.name == "language_model" and "direction" not in case.fields:
        options |= {"steps": 4}
    settings = build(case, tmp_path, **options)
    events = 0

    def listen(run: Run, event: Progress) -> None:
        nonlocal events
        events += 1

    whole = contents(workflow.train(settings, output=tmp_path / "whole", listeners=[listen]))
    path = tmp_path / "left"
    for _ in range(events):  # left after every single event, one after the other

        def leave(run: Run, event: Progress) -> None:
            raise Left

        torch.manual_seed(99)
        go = partial(workflow.resume, path) if path.exists() else partial(workflow.train, settings, output=path)
        with pytest.raises(Left):
            go(listeners=[leave])
    assert contents(workflow.resume(path)) == whole
