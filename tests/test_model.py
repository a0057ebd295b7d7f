"""Configurations as written and as built, models as loaded and asked."""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.contracts.tiny import CASES, build, write
from torch import Tensor, nn

from seqloom import config, tasks, workflow
from seqloom.cells.gru import GRU
from seqloom.checkpoint import RunError, Snapshot
from seqloom.compare.outcome import describe
from seqloom.config import ConfigError
from seqloom.data.loading import BatchLoader
from seqloom.model import Config, Model, answers, assess, document, files, find_layer, load, opened
from seqloom.run import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("classify")
    return workflow.train(build(CASES["classify"], folder, updates=3, evaluate_every=2), output=folder / "run")


# Configurations

NAMES = ", ".join(f'"{name}"' for name in tasks.names())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f'c.toml:1: missing key "task.name"; expected one of: {NAMES}'),
        ("[task]\n", f'c.toml:1: missing key "task.name"; expected one of: {NAMES}'),
        (
            '[task]\nname = "clasify"\n',
            f'c.toml:2: task.name: expected one of: {NAMES}; got "clasify"; did you mean "classify"?',
        ),
        ("[task]\nname = 3\n", f"c.toml:2: task.name: expected one of: {NAMES}; got 3"),
    ],
)
def test_a_task_has_a_name(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.build(config.parse(text, "c.toml"))
    assert str(caught.value) == message


def test_a_configuration_is_a_file_or_a_task_and_its_data(tmp_path: Path) -> None:
    write(CASES["classify"], tmp_path)
    alone = document("", task="classify", data=str(tmp_path / "t.txt"))
    assert alone.get("task.train") == str(tmp_path / "t.txt")
    assert alone.get("task.dev") == ""
    changed = document("train.epochs=7", task="classify", data=str(tmp_path / "t.txt"))
    assert Config.build(changed).train.epochs == 7
    path = tmp_path / "c.toml"
    path.write_text(Config.build(alone).text())
    assert Config.build(document(str(path), ["train.batch_size=3"])).train.batch_size == 3
    with pytest.raises(ValueError, match=r"give either a configuration or --task and --data"):
        document(str(path), task="tag", data="x")
    with pytest.raises(ValueError, match="what is to be trained"):
        document("", task="tag")


def test_files_of_a_folder_are_known_by_their_names(tmp_path: Path) -> None:
    for name in ("x.train.txt", "x.valid.txt", "readme"):
        (tmp_path / name).touch()
    found = files(str(tmp_path))
    assert found == {"task.train": str(tmp_path / "x.train.txt"), "task.dev": str(tmp_path / "x.valid.txt")}
    (tmp_path / "y.train.txt").touch()
    with pytest.raises(ValueError, match=r"several files for task\.train: x\.train\.txt, y\.train\.txt"):
        files(str(tmp_path))
    for path in tmp_path.glob("*train*"):
        path.unlink()
    with pytest.raises(ValueError, match="no file has train in its name"):
        files(str(tmp_path))


# A layer of one's own


class Mean(nn.Module):
    """Each output is the mean of what was read so far."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.map = nn.Linear(size, 5)
        self.output_size = 5

    def forward(self, x: Tensor) -> Tensor:
        mapped: Tensor = self.map(x)
        return mapped.cumsum(dim=1) / torch.arange(1, x.shape[1] + 1).view(1, -1, 1)


def test_a_layer_is_found_by_its_name() -> None:
    assert find_layer("seqloom.cells.gru:GRU") is GRU
    assert find_layer("") is None
    for wrong in ("seqloom.cells.gru:GUR", "no_such_module:X", "seqloom"):
        with pytest.raises(ValueError, match=f"--layer is '{wrong}', wanted module:name"):
            find_layer(wrong)


def test_a_run_with_an_own_layer_asks_for_it(tmp_path: Path) -> None:
    chosen = build(CASES["classify"], tmp_path, updates=2)
    made = workflow.train(chosen, output=tmp_path / "run", layer=Mean)
    with pytest.raises(ValueError, match=r"trained with a layer of your own, Mean: give it again"):
        load(made.path)
    answers = load(made.path, layer=Mean).predict(["it goes up", "low"])
    assert len(answers) == 2
    assert describe(made.path, layer=Mean)["task"] == "classify"
    assert "Mean" in made.config
    assert "tests" not in made.config  # a name, never a place to import from


# Models


def test_the_best_or_the_last_is_loaded(run: Run) -> None:
    for name in ("best", "last"):
        model = load(run.path, checkpoint=name)
        wanted = run.load(name).model
        assert all(torch.equal(tensor, wanted[key]) for key, tensor in model.module.state_dict().items())
        assert not model.module.training


def test_a_run_whose_task_learnt_something_else_is_refused(tmp_path: Path) -> None:
    chosen = build(CASES["classify"], tmp_path)
    strange = Run.create(tmp_path / "run", config=chosen.text(), learned='{"x": 1}', environment={})
    with pytest.raises(RunError, match=r"learned\.json: is not what the task classify has learnt"):
        opened(strange)


def test_answers_come_before_the_next_question_is_read(run: Run) -> None:
    model = load(run.path)
    asked: list[str] = []

    def questions() -> Iterator[Any]:
        for text in ("up", "down", "low"):
            asked.append(text)
            yield from model.task.read([text])

    answers = model.answer(questions(), batch=1)
    next(answers)
    assert asked == ["up"]
    assert [len(some) for some in answers] == [1, 1]


def test_answers_do_not_depend_on_how_many_are_asked_together(run: Run) -> None:
    model = load(run.path)
    texts = ["up", "it goes low below under", "", "what is this", "high"] * 3
    alone, together = (model.predict(texts, batch=size) for size in (1, 7))
    for one, other in zip(alone, together, strict=True):
        assert one.label == other.label
        assert asdict(one)["probabilities"] == pytest.approx(asdict(other)["probabilities"], abs=1e-6)


def test_scores_do_not_depend_on_the_order(run: Run) -> None:
    model = load(run.path)
    examples = list(model.task.read(Path(model.task.dev)))
    one, other = (assess(model.config, model.module, some) for some in (examples, examples[::-1]))
    assert one["loss"] == pytest.approx(other["loss"], rel=1e-6)
    assert one["accuracy"] == other["accuracy"]


def test_a_model_is_scored_where_it_is_not_where_it_was_trained(run: Run) -> None:
    model = load(run.path)
    elsewhere = model.config._replace(train=model.config.train.model_copy(update={"device": "meta"}))
    labelled = [("it goes up", "up"), ("low", "down")]
    assert Model(elsewhere, model.module).evaluate(labelled) == model.evaluate(labelled)


def test_what_cannot_be_done_is_said(run: Run, tmp_path: Path) -> None:
    model = load(run.path)
    with pytest.raises(TypeError, match="a model of the task classify generates no text"):
        next(model.generate("x"))
    with pytest.raises(ValueError, match="only n-gram models are written"):
        model.export(tmp_path / "x.arpa")
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ValueError, match="there are no examples"):
        model.evaluate(str(tmp_path / "empty.txt"))


def test_a_model_can_be_made_of_what_is_at_hand(run: Run) -> None:
    settings = opened(run)
    module = settings.task.build_model()
    module.load_state_dict(run.load("best").model)
    assert Model(settings, module).predict(["low"]) == load(run.path).predict(["low"])
    assert isinstance(run.load("best"), Snapshot)


@pytest.fixture(scope="module")
def translators(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("translators")
    seeds = (1, 2)
    configs = [build(CASES["translate, transformer"], folder, seed=seed, rate=0.003) for seed in seeds]
    return [workflow.train(config, output=folder / str(seed)).path for config, seed in zip(configs, seeds, strict=True)]


def test_only_analogies_are_restricted(run: Run) -> None:
    with pytest.raises(TypeError, match=r"^a model of the task classify has no analogies; wanted an embed$"):
        load(run.path).evaluate(["x"], restrict=5)


def test_joined_answers_keep_their_order_however_many_there_are(tmp_path: Path, monkeypatch: Any) -> None:
    chosen = build(CASES["language_model"], tmp_path, updates=1, steps=4, batch=2)
    model = load(workflow.train(chosen, output=tmp_path / "run").path)
    examples = list(model.task.read(tmp_path / "dev-t.txt"))
    whole = answers(model.config, model.module, examples)
    monkeypatch.setattr("seqloom.model.Batches", partial(BatchLoader, pool=3))  # in place of a million
    assert answers(model.config, model.module, examples) == whole


def test_a_search_is_chosen_when_a_run_is_asked(translators: list[Path]) -> None:
    questions = ["a cd é", "b"]
    greedy, beam = (load(translators[0], search=search) for search in ("greedy", "beam size=4 best=3"))
    for first, several in zip(greedy.predict(questions), beam.predict(questions), strict=True):
        assert len(first.best) == 1
        assert len(several.best) == 3
        assert several.best[0].log_probability >= first.best[0].log_probability - 1e-5
    with pytest.raises(ConfigError, match=r'unknown key "task\.search\.sise"; did you mean "task\.search\.size"'):
        load(translators[0], search="beam sise=4")


def test_runs_answer_together(translators: list[Path]) -> None:
    questions = ["a cd é", "b x", "eff"]
    alone, other = (load(path).predict(questions) for path in translators)
    twice = load(translators[0], also=[translators[0]]).predict(questions)
    assert [answer.text for answer in twice] == [answer.text for answer in alone]
    pairs = [(text, "a b") for text in questions]
    together = load(translators[0], also=translators[1:])
    losses = [load(path).evaluate(pairs)["loss"] for path in translators]
    assert together.evaluate(pairs)["loss"] < max(losses)
    assert len(together.predict(questions)) == len(other)


def test_runs_of_other_symbols_do_not_answer_together(translators: list[Path], tmp_path: Path) -> None:
    other = workflow.train(build(CASES["translate, characters"], tmp_path), output=tmp_path / "other")
    with pytest.raises(ValueError, match="have learnt other symbols"):
        load(translators[0], also=[other.path])


def test_answers_can_be_only_those_of_a_file(translators: list[Path], tmp_path: Path) -> None:
    config = opened(Run.open(translators[0])).task
    words = [symbol for symbol in config.learned.target.vocabulary.symbols if symbol.isalpha()]  # type: ignore[union-attr]
    allowed = [words[0], f"{words[1]} {words[0]} {words[1]}", f"{words[1]} {words[1]}"]
    (tmp_path / "answers.txt").write_text("\n".join([*allowed, "xyz"]) + "\n")
    for search in ("greedy", "beam size=3 best=3", "sample"):
        model = load(translators[0], search=search, allowed=str(tmp_path / "answers.txt"))
        for answer in model.predict(["a cd é", "", "b x"]):
            assert {candidate.text for candidate in answer.best} <= set(allowed)
    (tmp_path / "unknown.txt").write_text("xyz\n")
    with pytest.raises(ValueError, match="holds no answer whose symbols occur"):
        load(translators[0], allowed=str(tmp_path / "unknown.txt")).predict(["a"])


def test_an_impossible_search_says_so(translators: list[Path], tmp_path: Path) -> None:
    config = opened(Run.open(translators[0])).task
    words = [symbol for symbol in config.learned.target.vocabulary.symbols if symbol.isalpha()]  # type: ignore[union-attr]
    (tmp_path / "answers.txt").write_text(f"{words[0]}\n")
    with pytest.raises(ValueError, match="no answer that its settings allow"):
        load(translators[0], search="beam size=2 minimum=30", allowed=str(tmp_path / "answers.txt")).predict(["a"])
    with pytest.raises(ValueError, match=r"--search has '5', wanted a name and key=value pairs"):
        load(translators[0], search="beam 5")


def test_runs_that_read_in_other_directions_do_not_answer_together(translators: list[Path], tmp_path: Path) -> None:
    case = CASES["translate, transformer"]
    other = build(case._replace(fields={**case.fields, "reverse": True}), tmp_path)
    path = workflow.train(other, output=tmp_path / "other").path
    with pytest.raises(ValueError, match="read their sources in other directions"):
        load(translators[0], also=[path])
