"""``seqloom.train`` from Python: every kind of data in memory gives the same model, and mistakes are explained."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import seqloom
from seqloom.checkpoint import RunError
from seqloom.run import Run

TEXTS = [f"{word} {other} film" for word in ("good", "bad") for other in ("long", "short", "old", "new", "odd")]
STARS = [5] * 5 + [1] * 5
SMALL: dict[str, Any] = {"epochs": 1, "embedding_size": 4, "encoder": {"hidden_size": 4}, "dev_fraction": 0.0}
FRAME = pd.DataFrame({"id": range(10), "review": TEXTS, "stars": STARS})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def train(**arguments: Any) -> Run:
    return seqloom.train(task="classify", quiet=True, **{**SMALL, **arguments})


def settings(run: Run) -> Any:
    return tomllib.loads(run.config)


class Rows(list[Any]):
    """A data set as those of Hugging Face: rows that are dictionaries, with named columns and features."""

    column_names = ("review", "stars")
    features = {"review": None, "stars": None}  # noqa: RUF012


DATA: dict[str, dict[str, Any]] = {
    "pandas": {"data": FRAME, "text": "review", "label": "stars"},
    "pandas, columns by name": {"data": FRAME},
    "polars": {"data": pl.from_pandas(FRAME[["review", "stars"]]), "label": "stars"},
    "arrow": {"data": pa.table({"review": TEXTS, "stars": STARS})},
    "dict of lists": {"data": {"review": TEXTS, "stars": STARS}},
    "list of dicts": {"data": [{"review": text, "stars": label} for text, label in zip(TEXTS, STARS, strict=True)]},
    "data set": {"data": Rows({"review": text, "stars": label} for text, label in zip(TEXTS, STARS, strict=True))},
    "pairs": {"data": list(zip(TEXTS, STARS, strict=True))},
    "lists as pairs": {"data": [list(pair) for pair in zip(TEXTS, STARS, strict=True)]},
    "NumPy labels": {"data": list(zip(TEXTS, np.array(STARS), strict=True))},
    "inputs and targets": {"data": (TEXTS, np.array(STARS))},
    "targets apart": {"data": np.array(TEXTS), "label": STARS},
    "series": {"data": FRAME["review"], "label": FRAME["stars"]},
    "polars series": {"data": pl.Series(TEXTS), "label": pl.Series(STARS)},
    "iterator": {"data": iter(list(zip(TEXTS, STARS, strict=True)))},
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """The weights of the same training by a file."""
    folder = tmp_path_factory.mktemp("file")
    FRAME[["review", "stars"]].to_csv(folder / "data.csv", index=False)
    run = seqloom.train(task="classify", data=folder / "data.csv", output=folder / "run", quiet=True, **SMALL)
    return run.load_best().model


@pytest.mark.parametrize("name", DATA)
def test_the_same_data_in_memory_give_the_model_of_a_file(name: str, reference: dict[str, torch.Tensor]) -> None:
    run = train(**DATA[name])
    assert all(torch.equal(value, reference[key]) for key, value in run.load_best().model.items())
    assert settings(run)["task"]["train"] == "(in memory)"
    (answer,) = seqloom.load(run).predict("good film")
    assert answer.label in (1, 5)  # numbers again, not "1" and "5"


def test_columns_are_reported_and_kept_for_predictions(capsys: pytest.CaptureFixture[str]) -> None:
    run = seqloom.train(task="classify", data=FRAME, **SMALL)
    assert "data: text from column 2 'review', label from column 3 'stars'" in capsys.readouterr().err
    assert settings(run)["task"]["text_column"] == "review"
    model = seqloom.load(run)
    expected = model.predict(TEXTS)
    assert model.predict(FRAME) == model.predict(FRAME.drop(columns="stars")) == expected
    assert model.predict(FRAME["review"]) == model.predict(np.array(TEXTS)) == model.predict(tuple(TEXTS)) == expected
    assert model.evaluate(FRAME)["examples"] == 10


def test_boolean_labels_come_back_as_such() -> None:
    run = train(data=(TEXTS, np.array(STARS) > 3))
    (answer,) = seqloom.load(run).predict("good film")
    assert answer.label is True or answer.label is False
    assert set(answer.probabilities) == {True, False}


def test_text_labels_stay_text_even_if_they_are_digits() -> None:
    run = train(data=(TEXTS, [str(label) for label in STARS]))
    assert seqloom.load(run).predict("good film")[0].label in ("1", "5")


@pytest.mark.parametrize("shape", [(12, 5), (12, 5, 2)])
def test_arrays_are_sequences(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).normal(size=shape)
    run = train(data=values, label=np.arange(12) % 2)
    answers = seqloom.load(run).predict(torch.tensor(values))
    assert set(answers["label"]) <= {0, 1}
    assert len(answers) == 12


def test_development_data_may_be_in_memory_too() -> None:
    run = train(data=FRAME, dev=FRAME[:4])
    assert run.best_metrics()["examples"] == 4
    both = train(data={"train": FRAME, "validation": FRAME[:3]})
    assert both.best_metrics()["examples"] == 3


def test_settings_are_keys_of_the_task_or_of_training() -> None:
    run = train(data=FRAME, epochs=np.int64(2), batch_size=3, pooling="mean", overrides={"train.learning_rate": 0.01})
    values = settings(run)
    assert values["train"]["epochs"] == 2
    assert values["train"]["batch_size"] == 3
    assert values["train"]["learning_rate"] == 0.01
    assert values["task"]["pooling"] == "mean"
    assert values["task"]["encoder"]["hidden_size"] == 4


def test_a_file_with_changes_as_text_list_or_dict(tmp_path: Path) -> None:
    FRAME[["review", "stars"]].to_csv("data.csv", index=False)
    config = tmp_path / "c.toml"
    config.write_text(
        '[task]\nname = "classify"\ntrain = "data.csv"\ndev_fraction = 0\nembedding_size = 4\n'
        "[task.encoder]\nhidden_size = 4\n[train]\nepochs = 1\n"
    )
    changes: list[Any] = ["train.epochs=2", ["train.epochs=2"], {"train.epochs": 2}, {"train": {"epochs": 2}}]
    for change in changes:
        assert settings(seqloom.train(str(config), change, quiet=True))["train"]["epochs"] == 2
    run = seqloom.train(config, "train.epochs=3", {"train.batch_size": 5}, quiet=True)
    assert (settings(run)["train"]["epochs"], settings(run)["train"]["batch_size"]) == (3, 5)
    assert settings(seqloom.train(config, data=FRAME, quiet=True))["task"]["train"] == "(in memory)"
    assert settings(seqloom.train(tomllib.loads(config.read_text()), quiet=True))["train"]["epochs"] == 1


def test_other_tasks_read_values_in_memory() -> None:
    tiny: dict[str, Any] = {"quiet": True, "epochs": 1, "dev_fraction": 0.0}
    words = [(text.split(), ["ADJ", "ADJ", "NOUN"]) for text in TEXTS]
    tagger = seqloom.load(seqloom.train(task="tag", data=words, **tiny))
    assert len(tagger.predict("good film")[0].labels) == 2
    pairs = {"source": TEXTS, "target": [text.upper() for text in TEXTS]}
    assert seqloom.load(seqloom.train(task="translate", data=pairs, **tiny)).predict(["good"])[0].text is not None
    texts = pd.DataFrame({"id": range(10), "text": TEXTS})
    run = seqloom.train(task="language_model", data=texts, text="text", overrides=["task.text.unit=words"], **tiny)
    assert "film" in run.learned


@pytest.mark.parametrize(
    "series",
    [
        pd.DataFrame({"date": pd.date_range("2020-01-01", periods=40), "sales": np.arange(40.0)}),
        pd.Series(np.arange(40.0)),
        np.arange(40.0),
        np.arange(40.0)[:, None],
        list(range(40)),
    ],
    ids=["frame", "series", "array", "column", "list"],
)
def test_a_series_in_memory_is_forecast(series: Any) -> None:
    run = seqloom.train(task="forecast", data=series, history=8, epochs=1, encoder={"hidden_size": 4}, quiet=True)
    (answer,) = seqloom.load(run).predict(series)
    assert len(answer.columns) == 1
    assert np.isfinite(answer.values).all()


def test_a_run_on_data_in_memory_asks_for_them_to_be_resumed() -> None:
    whole = train(data=FRAME, epochs=3, output="whole")

    def stop(_: Run, event: Any) -> None:
        if event.update == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(data=FRAME, epochs=3, output="run", listeners=[stop])
    with pytest.raises(RunError, match=r'data in memory; give the same data again: seqloom.resume\("run", data=…\)'):
        seqloom.resume("run", quiet=True)
    with pytest.raises(RunError, match="has changed since run was started"):
        seqloom.resume("run", data=FRAME[:9], quiet=True)
    run = seqloom.resume("run", data=FRAME, quiet=True)
    assert all(torch.equal(value, whole.load("last").model[name]) for name, value in run.load("last").model.items())


MISTAKES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "only data": (
        FRAME,
        {},
        r"expected the path of a configuration, found a DataFrame; for example seqloom.train\(task=",
    ),
    "its columns": (FRAME, {}, r"text='id', label='stars'\) \(its columns are id, review, stars\)"),
    "a list": (TEXTS, {}, "found a list; for example"),
    "an array": (np.zeros((3, 4)), {}, "found an ndarray; for example"),
    "data by position": ("classify", {"positional": FRAME}, "found a DataFrame; data are given by name: data="),
    "no data": (None, {"task": "classify"}, "nothing to train: give data, or the path"),
    "no task": (None, {"data": FRAME}, "nothing to train: give task, or the path"),
    "a data file": ("reviews.csv", {}, r"reviews.csv: is data, not a configuration; .* data='reviews.csv'\)"),
    "unknown task": (None, {"task": "clasify", "data": FRAME}, 'did you mean "classify"'),
    "unknown key": (None, {"task": "classify", "data": FRAME, "hidden": 3}, 'unknown key "task.hidden"; did you mean'),
    "wrong value": (None, {"task": "classify", "data": FRAME, "epochs": "two"}, "train.epochs: expected an integer"),
    "an object": (
        None,
        {"task": "classify", "data": FRAME, "epochs": object()},
        "expected a setting as in a TOML file",
    ),
    "unknown column": (None, {"task": "classify", "data": FRAME, "text": "reviw"}, "no column 'reviw'"),
    "other length": (
        None,
        {"task": "classify", "data": TEXTS, "label": [1, 2]},
        "a label for each of 10 inputs, found 2",
    ),
    "a set": (None, {"task": "classify", "data": set(TEXTS)}, "found a set, which has no order"),
    "a number": (None, {"task": "classify", "data": 3}, "expected a path, a data frame"),
    "missing array": (None, {"task": "classify", "data": [([1.0], 1), (None, 2)]}, "input:2: expected a string"),
    "missing label": (None, {"task": "classify", "data": [("a b", 1), ("b c", float("nan"))]}, "input:2: no label"),
    "no such device": (None, {"task": "classify", "data": FRAME, "device": "gpu"}, "does not have; expected cpu"),
    "no column of text": (None, {"task": "language_model", "data": {"a": [1], "b": [2]}}, "name it, text=…"),
    "a table of sound": (None, {"task": "transcribe", "data": {"a": [1]}}, "expected a column with the file name"),
    "a table of images": (None, {"task": "caption", "data": {"a": [[1]], "b": [2]}}, "caption: expected a string"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_explained(name: str) -> None:
    config, arguments, message = MISTAKES[name]
    arguments = dict(arguments)
    positional = [arguments.pop("positional")] if "positional" in arguments else []
    with pytest.raises((ValueError, TypeError), match=message) as error:
        seqloom.train(config, *positional, quiet=True, **arguments)
    assert not any(word in str(error.value) for word in ("pydantic", "ambiguous", "xpu"))
    assert not Path("runs").exists()


def test_a_text_is_not_taken_for_a_file_nor_a_file_for_a_text() -> None:
    model = seqloom.load(train(data=FRAME))
    assert len(model.predict("good film, and long")) == 1
    with pytest.warns(UserWarning, match=r"the input is empty \(input:1\): its answer says nothing"):
        assert len(model.predict("")) == 1
    for name in ("revews.csv", "data/reviews.txt"):
        with pytest.raises(ValueError, match=r"no such file.*a text is given in a list: predict\("):
            model.predict(name)
    Path("reviews.txt").write_text("good film\nbad film\n")
    assert len(model.predict("reviews.txt")) == 2
    with pytest.raises(ValueError, match="expected a path, a data frame"):
        model.predict(None)


def test_a_run_on_data_in_memory_says_how_to_continue_it() -> None:
    run = train(data=FRAME, dev=FRAME[:4], output="run")
    card = (run.path / "README.md").read_text(encoding="utf-8")
    assert "seqloom.resume('run', 'train.epochs=2', data=…, dev=…)" in card
    assert "--resume" not in card


def test_a_model_shows_its_parts() -> None:
    model = seqloom.load(train(data=FRAME))
    count = sum(parameter.numel() for parameter in model.module.parameters())
    assert repr(model) == f"<Model: task classify, parameters {count:,}, labels 1, 5>"
    page = model._repr_html_()
    for part in ("encoder.layer", f"{count:,}", "1, 5"):
        assert part in page


def test_models_and_runs_are_not_confused() -> None:
    run = train(data=FRAME)
    with pytest.raises(TypeError, match=r"expected a model, as seqloom.load\(run\) returns it, found a Run"):
        seqloom.explain.explain(run, "good film")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a text or an array to explain, found an int"):
        seqloom.explain.explain(seqloom.load(run), 3)
    for function in (seqloom.load, seqloom.resume):
        with pytest.raises(TypeError, match="expected a run or its path, found a DataFrame"):
            function(FRAME)
    with pytest.raises(ValueError, match=r"input:1: expected a text, found int"):
        seqloom.load(run).predict([3])


def test_sections_report_wrong_arguments_in_our_words() -> None:
    with pytest.raises(ValueError, match=r"^Beam: size: expected a number greater than or equal to 1, got 0$"):
        seqloom.Beam(size=0)
    with pytest.raises(ValueError, match=r"^Beam: unknown argument width$"):
        seqloom.Beam(width=3)  # type: ignore[call-arg]


def test_a_finished_run_is_continued_and_its_weights_are_reused() -> None:
    run = seqloom.train(task="classify", data=FRAME, text="review", label="stars", updates=1, output="one", quiet=True)
    again = seqloom.resume(run, "train.updates=2", data=FRAME, quiet=True)
    assert again.summary()["finished"] == "2 updates done"
    other = seqloom.train(
        task="classify",
        data=FRAME,
        text="review",
        label="stars",
        updates=1,
        output="two",
        start_from=run.path,
        quiet=True,
    )
    assert any(note.startswith("weights from one: ") for note in other.notes)
