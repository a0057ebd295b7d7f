"""The laws of seqloom.testing for every task, and what a run of each task promises beyond them."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
import torch
from pydantic import ValidationError
from tests.contracts.tiny import CASES, build

from seqloom import config, tasks, workflow
from seqloom.checkpoint import Snapshot
from seqloom.data.readers.text_files import resolve
from seqloom.evaluation import predict_all
from seqloom.model import Model, load
from seqloom.run import Run
from seqloom.run_config import Config
from seqloom.tasks.task import Task
from seqloom.testing import tasks as laws
from seqloom.testing.laws import Law, check_law
from seqloom.testing.tasks import TaskCase, assert_same_answers, fit
from seqloom.training.config import TrainConfig
from seqloom.training.progress import Progress
from seqloom.training.self_trained import SelfTrained

EVERY_LAW = [
    *laws.LAWS,
    laws.loss_is_a_sum_over_rows,
    laws.metric_is_made_of_sums,
    laws.questions_are_answered,
]


class Fitted(NamedTuple):
    config: Config
    case: TaskCase


@pytest.fixture(scope="module", params=CASES)
def fitted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    """Every task, fitted once for all tests of this file; they must not change it."""
    return make(request.param, tmp_path_factory.mktemp("task"))


def make(name: str, folder: Path) -> Fitted:
    found = build(CASES[name], folder)
    case = fit(found.task, found.task.train, dev=found.task.dev, questions=CASES[name].questions)
    return Fitted(found._replace(task=case.task), case)


def test_every_task_has_an_entry() -> None:
    missing = set(tasks.names()) - {case.name for case in CASES.values()}
    assert not missing, f"{', '.join(missing)}: write tiny data for it into tests/contracts/tiny.py"


@pytest.mark.parametrize("law", EVERY_LAW, ids=lambda law: law.__name__)
def test_law(fitted: Fitted, law: Law) -> None:
    if law is laws.loss_is_a_sum_over_rows and isinstance(fitted.case.module, SelfTrained):
        pytest.skip("a self-trained model has no loss function")
    assert law in laws.laws_for(fitted.case)
    check_law(law, fitted.case)


def variants(task: Task) -> list[Task]:
    """The task with each metric that it can be judged by."""
    field = type(task).model_fields.get("best_by")
    chosen = []
    for name in get_args(field.annotation) if field else ():
        with suppress(ValidationError):  # of other symbols
            type(task).model_validate({**task.model_dump(), "best_by": name})
            chosen.append(task.model_copy(update={"best_by": name}))
    return chosen or [task]


def test_every_metric_is_made_of_sums_over_examples(fitted: Fitted) -> None:
    for task in variants(fitted.config.task):
        check_law(laws.metric_is_made_of_sums, replace(fitted.case, task=task))


@pytest.mark.parametrize("name", ["language_model", "language_model, transformer", "forecast, every_step"])
def test_joined_and_cut_the_sums_are_still_those_of_examples(name: str, tmp_path: Path) -> None:
    fitted = make(name, tmp_path)
    task, examples = fitted.config.task, fitted.case.examples
    for batch in (1, 4, 5):
        train = fitted.config.train.model_copy(update={"steps": 5, "batch": batch})
        found = predict_all(fitted.config._replace(train=train), fitted.case.module, list(examples))
        sums = task.metric_sums(found, examples)
        assert sums is not None
        assert sums.whole == pytest.approx(task.score(found, examples)[task.main_metric], rel=1e-9)
        assert len(sums.rows) == len(examples)


def test_a_configuration_comes_back_from_its_text(fitted: Fitted) -> None:
    text = fitted.config.text()
    again = Config.build(config.parse(text, "config.toml"))
    assert again.text() == text
    assert again == fitted.config._replace(task=fitted.case.unfitted)


@pytest.mark.parametrize("name", tasks.names())
def test_a_template_can_be_read(name: str) -> None:
    kind = tasks.find(name)
    text = config.template({"task": kind, "train": TrainConfig}, kind.recommended)
    assert Config.build(config.parse(text, "config.toml")).name == name


def test_a_saved_run_answers_the_same(fitted: Fitted, tmp_path: Path) -> None:
    assert fitted.config.task.learned is not None
    learned = fitted.config.task.learned.model_dump_json()
    run = Run.create(tmp_path / "run", config=fitted.config.text(), learned=learned, environment={})
    run.save("best", Snapshot(fitted.case.module.state_dict(), {}, {}))
    model = load(tmp_path / "run")
    examples = list(model.task.read(resolve(fitted.config.task.dev)))
    found = laws.answers(TaskCase(model.task, model.module, examples), examples)
    assert_same_answers(found, laws.answers(fitted.case, fitted.case.examples), label="loaded", exact=True)


def test_questions_are_answered_by_a_loaded_model(fitted: Fitted) -> None:
    questions = fitted.case.questions
    model = Model(fitted.config, fitted.case.module)
    before = torch.is_grad_enabled()
    found = model.predict(questions)
    assert torch.is_grad_enabled() is before
    one_by_one = [answer for question in questions for answer in model.predict([question])]
    assert len(found) == len(questions)
    assert [type(answer) for answer in found] == [type(answer) for answer in one_by_one]
    assert_same_answers(found, one_by_one, label="together")


def test_a_task_that_explains_nothing_shows_its_prediction(fitted: Fitted) -> None:
    """The defaults of Task, which hold for a task that overrides none of them."""
    task, example = fitted.config.task, fitted.case.examples[0]
    with torch.no_grad():
        found = Task.explain(task, fitted.case.module, example)
    assert [asdict(found.prediction)] == [
        asdict(answer) for answer in task.predict(fitted.case.module, task.collate([example])).answers
    ]
    assert found.headline == str(found.prediction)
    assert found.notes == [f"the task {task.name} has no explanation of its own; --gates draws its recurrent layers"]
    assert Task.explain_together(task, fitted.case.module, [example]) is None
    assert Task.input_tokens(task, example) == []


def test_explanations_are_data(fitted: Fitted, tmp_path: Path) -> None:
    """Every task explains a prediction as data, and draws predictions only into the folder it is given."""
    task, example = fitted.config.task, fitted.case.examples[0]
    with torch.no_grad():
        found = task.explain(fitted.case.module, example, beam=task.searches, heads=True)
    assert found.task == task.name
    json.dumps(found.data())
    tokens = task.input_tokens(example)
    assert tokens == [] or len(tokens) == task.collate([example]).inputs.mask.shape[1]
    files = set(tmp_path.rglob("*"))
    model = Model(fitted.config, fitted.case.module)
    (tmp_path / "plots").mkdir()
    predict = partial(_predict, model)
    task.draw_predictions(fitted.case.examples, tmp_path / "plots", predict=predict)
    assert {path.parent for path in tmp_path.rglob("*.png") if path not in files} <= {tmp_path / "plots"}


def _predict(model: Model, examples: Sequence[Any]) -> list[Any]:
    return [answer for batch in model.predict_batches(iter(examples)) for answer in batch]


# A run that was left goes on bit for bit.


class Left(Exception):
    """Raised to interrupt a training."""


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
def test_a_run_that_is_left_anywhere_goes_on_bit_for_bit(name: str, tmp_path: Path) -> None:
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
    for _ in range(events):  # interrupted after every single event, one after the other

        def leave(run: Run, event: Progress) -> None:
            raise Left

        torch.manual_seed(99)
        go = partial(workflow.resume, path) if path.exists() else partial(workflow.train, settings, output=path)
        with pytest.raises(Left):
            go(listeners=[leave])
    assert contents(workflow.resume(path)) == whole
