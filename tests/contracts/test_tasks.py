"""The contract laws of seqloom.testing for every task, and what a run of each task guarantees beyond them."""

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
from seqloom.data.readers.text_files import DataError, resolve
from seqloom.evaluation import predict_all
from seqloom.layers.bfloat16_products import unsupported
from seqloom.model import Model, load
from seqloom.run import Run
from seqloom.run_config import Config, config_template
from seqloom.tasks.task import Task
from seqloom.testing import tasks as laws
from seqloom.testing.laws import Law, check_law
from seqloom.testing.tasks import TaskCase, assert_same_answers, fit
from seqloom.training.progress import Progress
from seqloom.training.self_trained import SelfTrained

pytestmark = pytest.mark.sampled(9)

EVERY_LAW = [
    *laws.LAWS,
    laws.loss_is_a_sum_over_rows,
    laws.metric_is_computed_from_sums,
    laws.baseline_is_paired_with_the_model,
    laws.inputs_are_predicted,
]


class Fitted(NamedTuple):
    config: Config
    case: TaskCase


@pytest.fixture(scope="module", params=CASES)
def fitted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    """Every task, fitted once for all tests of this file, which must not change it."""
    return make(request.param, tmp_path_factory.mktemp("task"))


def make(name: str, folder: Path) -> Fitted:
    settings = build(CASES[name], folder)
    task = settings.task
    case = fit(task, task.train, dev=task.dev, inputs=CASES[name].questions)
    return Fitted(settings._replace(task=case.task), case)


def test_every_task_has_a_case() -> None:
    missing = set(tasks.names()) - {case.name for case in CASES.values()}
    assert not missing, f"{', '.join(missing)}: add a case with tiny data to tests/contracts/tiny.py"


@pytest.mark.parametrize("law", EVERY_LAW, ids=lambda law: law.__name__)
def test_law(fitted: Fitted, law: Law) -> None:
    if law is laws.loss_is_a_sum_over_rows and isinstance(fitted.case.module, SelfTrained):
        pytest.skip("a self-trained model has no loss function")
    assert law in laws.laws_for(fitted.case)
    check_law(law, fitted.case)


def variants(task: Task, examples: Sequence[Any]) -> list[Task]:
    """The task with each metric that can choose its best model."""
    field = type(task).model_fields.get("metric")
    copies = []
    for name in get_args(field.annotation) if field else ():
        copy = task.model_copy(update={"metric": name})
        with suppress(ValidationError, DataError):  # a metric that these tokens or targets do not allow
            type(task).model_validate({**task.model_dump(), "metric": name})
            copy.check_targets(examples)
            copies.append(copy)
    return copies or [task]


def test_every_metric_is_computed_from_sums_over_examples(fitted: Fitted) -> None:
    for task in variants(fitted.config.task, fitted.case.examples):
        check_law(laws.metric_is_computed_from_sums, replace(fitted.case, task=task))


@pytest.mark.parametrize("name", ["language_model", "language_model, transformer", "forecast, every_step"])
def test_sums_of_concatenated_sequences_are_those_of_examples(name: str, tmp_path: Path) -> None:
    fitted = make(name, tmp_path)
    task, examples = fitted.config.task, fitted.case.examples
    for batch in (1, 4, 5):
        train = fitted.config.train.model_copy(update={"bptt_steps": 5, "batch_size": batch})
        answers = predict_all(fitted.config._replace(train=train), fitted.case.module, list(examples))
        sums = task.metric_sums(answers, examples)
        assert sums is not None
        assert sums.whole == pytest.approx(task.score(answers, examples)[task.main_metric], rel=1e-9)
        assert len(sums.rows) == len(examples)


def test_a_configuration_survives_its_text(fitted: Fitted) -> None:
    text = fitted.config.text()
    again = Config.build(config.parse(text, "config.toml"))
    assert again.text() == text
    assert again == fitted.config._replace(task=fitted.case.unfitted)


@pytest.mark.parametrize("name", tasks.names())
def test_a_template_is_valid(name: str) -> None:
    text = config_template(name)
    assert Config.build(config.parse(text, "config.toml")).name == name


def test_a_saved_run_predicts_the_same(fitted: Fitted, tmp_path: Path) -> None:
    assert fitted.config.task.learned is not None
    learned = fitted.config.task.learned.model_dump_json()
    run = Run.create(tmp_path / "run", config=fitted.config.text(), learned=learned, environment={})
    run.save("best", Snapshot(fitted.case.module.state_dict(), {}, {}))
    model = load(tmp_path / "run")
    task = model.config.task  # which is evaluated
    examples = list(task.read(resolve(fitted.config.task.dev)))
    answers = laws.answers(TaskCase(task, model.module, examples), examples)
    assert_same_answers(answers, laws.answers(fitted.case, fitted.case.examples), label="loaded", exact=True)


def test_a_model_predicts_each_question_as_if_alone(fitted: Fitted) -> None:
    questions = fitted.case.inputs
    model = Model(fitted.config, fitted.case.module)
    enabled = torch.is_grad_enabled()
    together = model.predict(questions)
    assert torch.is_grad_enabled() is enabled
    one_by_one = [answer for question in questions for answer in model.predict([question])]
    assert len(together) == len(questions)
    assert [type(answer) for answer in together] == [type(answer) for answer in one_by_one]
    assert_same_answers(together, one_by_one, label="together")


def test_the_default_explanation_is_the_prediction(fitted: Fitted) -> None:
    """The defaults of Task, for tasks that override none of them."""
    task, example = fitted.config.task, fitted.case.examples[0]
    with torch.no_grad():
        explanation = Task.explain(task, fitted.case.module, example)
        (answer,) = task.predict(fitted.case.module, task.collate([example])).answers
    assert asdict(explanation.prediction) == asdict(answer)
    assert explanation.headline == str(explanation.prediction)
    assert explanation.notes == [
        f"the task {task.name} has no explanation of its own; --gates draws its recurrent layers"
    ]
    assert Task.explain_together(task, fitted.case.module, [example]) is None
    assert Task.input_tokens(task, example) == []


def test_explanations_are_data(fitted: Fitted, tmp_path: Path) -> None:
    """Every task explains a prediction as JSON data, and plots predictions only into the given folder."""
    task, example = fitted.config.task, fitted.case.examples[0]
    with torch.no_grad():
        explanation = task.explain(fitted.case.module, example, beam=task.uses_search, heads=True)
    assert explanation.task == task.name
    json.dumps(explanation.to_dict())
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


class Interruption(Exception):
    """Raised to interrupt training."""


def contents(run: Run) -> tuple[Any, ...]:
    best, last = run.load("best"), run.load("last")
    facts = {name: value for name, value in last.facts.items() if name != "seconds"}
    parts = [{name: part[name].tolist() for name in sorted(part)} for part in (best.model, last.model, last.training)]
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in run.rows()]
    return repr(parts), repr(facts), repr(best.facts), rows


TRAINED = [
    *tasks.names(),
    "language_model, bidirectional",
    "language_model, masked",
    "tag, contextual vectors",
    "tag, unidirectional",
    "tag, regression",
    "classify, regression",
    "language_model, window",
    "forecast, every_step",
]


@pytest.mark.parametrize("name", TRAINED)
def test_a_run_interrupted_after_every_event_resumes_bit_for_bit(name: str, tmp_path: Path) -> None:
    check_resuming(name, tmp_path)


@pytest.mark.skipif(unsupported() is not None, reason="no bfloat16 instructions")
@pytest.mark.parametrize("name", [name for name in TRAINED if name != "embed"])
def test_a_training_in_bfloat16_resumes_bit_for_bit(name: str, tmp_path: Path) -> None:
    check_resuming(name, tmp_path, precision="bfloat16")


def check_resuming(name: str, tmp_path: Path, **more: Any) -> None:
    case = CASES[name]
    options: dict[str, Any] = more | {
        "updates": 6,
        "evaluate_every": 4,
        "average_checkpoints": 2,
        "accumulate": 2,
        "save_every_minutes": 1e-9,
    }
    if case.name == "language_model" and not {"direction", "objective"} & case.fields.keys():
        options |= {"bptt_steps": 4}
    settings = build(case, tmp_path, **options)
    events = 0

    def count(run: Run, event: Progress) -> None:
        nonlocal events
        events += 1

    whole = contents(workflow.train(settings, output=tmp_path / "whole", listeners=[count]))
    path = tmp_path / "interrupted"
    for _ in range(events):

        def interrupt(run: Run, event: Progress) -> None:
            raise Interruption

        torch.manual_seed(99)
        run = partial(workflow.resume, path) if path.exists() else partial(workflow.train, settings, output=path)
        with pytest.raises(Interruption):
            run(listeners=[interrupt])
    assert contents(workflow.resume(path)) == whole
