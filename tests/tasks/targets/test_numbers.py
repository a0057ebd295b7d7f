"""Numbers as targets: scores against scikit-learn, their own units, baselines, and data that cannot be learned."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics

import seqloom
from seqloom.data.dataset_summary import DatasetSummary, compare_splits
from seqloom.data.readers.text_files import DataError
from seqloom.data.target_scale import TargetScale
from seqloom.tasks.classify import Classify
from seqloom.tasks.tag import Tag
from seqloom.tasks.targets.numbers import NumberTargets, last_value_r2

RANDOM = np.random.default_rng(3)
SCALE = TargetScale(names=("force", "speed"), means=(1e6, -2.0), deviations=(50.0, 0.001))
TARGETS = NumberTargets(SCALE)
SMALL: dict[str, Any] = {"encoder": {"hidden_size": 4}, "train": "t"}


def values(*shape: int) -> Any:
    return SCALE.means + RANDOM.normal(size=(*shape, 2)) * np.array(SCALE.deviations)


def test_scores_are_those_of_scikit_learn_and_numpy() -> None:
    pairs = [(values(length), values(length)) for length in (4, 1, 7, 2)]
    truth, predicted = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    scores = TARGETS.score(pairs)
    assert scores["r2"] == pytest.approx(metrics.r2_score(truth, predicted), rel=1e-9)
    assert scores["mse"] == pytest.approx(metrics.mean_squared_error(truth, predicted), rel=1e-12)
    assert scores["mae"] == pytest.approx(metrics.mean_absolute_error(truth, predicted), rel=1e-12)
    columns = [float(np.corrcoef(truth[:, column], predicted[:, column])[0, 1]) for column in (0, 1)]
    assert scores["correlation"] == pytest.approx(np.mean(columns), rel=1e-6)
    speed = scores["per_target"]["speed"]
    assert speed["r2"] == pytest.approx(metrics.r2_score(truth[:, 1], predicted[:, 1]), rel=1e-6)
    assert speed["correlation"] == pytest.approx(columns[1], rel=1e-6)
    later, earlier = (np.concatenate([pair[0][part] for pair in pairs]) for part in (slice(1, None), slice(-1)))
    assert last_value_r2(pairs) == pytest.approx(metrics.r2_score(later, earlier), rel=1e-6)


def test_constant_targets_have_the_r2_of_scikit_learn() -> None:
    truth = np.full((5, 2), [1e6, -2.0])
    for predicted in (truth, truth + 1):
        assert TARGETS.score([(truth, predicted)])["r2"] == metrics.r2_score(truth, predicted)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("mse", lambda error: error**2),
        ("mae", np.abs),
        ("huber", lambda error: np.where(np.abs(error) < 1, 0.5 * error**2, np.abs(error) - 0.5)),
    ],
)
def test_losses(name: Any, function: Callable[[Any], Any]) -> None:
    predicted, truth = torch.randn(6, 2, dtype=torch.float64) * 2, torch.randn(6, 2, dtype=torch.float64)
    total = NumberTargets(SCALE, name).loss(predicted, truth)
    expected = function((predicted - truth).numpy()).mean(axis=1).sum()
    assert float(total) == pytest.approx(float(expected), rel=1e-12)


def test_numbers_come_back_in_their_own_units_with_the_digits_that_matter() -> None:
    answer = TARGETS.answer(TARGETS.restore(torch.tensor([1.0, -1.0])))
    assert answer.values == {"force": 1000050.0, "speed": -2.001}
    assert str(answer) == "1000050\t-2.001"
    with pytest.raises(ValueError, match="there are 2 targets, force, speed: take them from values"):
        _ = answer.value
    steps = TARGETS.step_answer(["a", "b"], np.array([[1.5, 2.0], [3.0, 4.0]]))
    assert str(steps) == "a\t1.5\t2\nb\t3\t4\n"
    assert str(TARGETS.step_answer([], np.array([[1.5, 2.0]]))) == "1.5,2\n"


def fitted(task: Any, data: Any) -> Any:
    task, notes = task.resolve(data)
    return task.fit(task.read(data)), notes


TEXTS = [(f"{'good ' * number}film", number / 7) for number in range(8)]


def test_the_type_of_targets_is_detected_and_said() -> None:
    task, notes = fitted(Classify(**SMALL), TEXTS)
    assert (task.target_type, task.main_metric) == ("number", "r2")
    assert notes == ('targets are numbers, 0 to 1; task.target_type = "class" takes the labels as classes',)
    assert fitted(Classify(**SMALL, target_type="class"), TEXTS)[0].main_metric == "accuracy"
    stars = [(text, number % 3) for number, (text, _) in enumerate(TEXTS)]
    task, notes = fitted(Classify(**SMALL), stars)
    assert task.target_type == "class"
    assert notes == (
        'labels are 3 whole numbers, 0 to 2, taken as classes; task.target_type = "number" predicts numbers instead',
    )
    counts = [(f"text {number}", (number * 37) % 101) for number in range(40)]
    assert fitted(Classify(**SMALL), counts)[0].target_type == "number"
    task, notes = Classify(**SMALL).resolve([(f"text {number}", number) for number in range(40)])
    assert (task.target_type, notes) == ("class", ())  # which counts the rows: refused as labels


def test_tagging_does_not_learn_fractions_as_classes() -> None:
    sentences = [("a b c", [0.3, 0.7, 0.3]), ("c b", [0.3, 0.7])]
    task, notes = fitted(Tag(**SMALL), sentences)
    assert task.target_type == "number"
    assert "targets are numbers, 0.3 to 0.7" in notes[0]
    batch = task.collate(list(task.read(sentences)))
    assert batch.target.shape == (2, 3, 1)
    baseline = task.fit_baseline(*counted(task, sentences))
    assert baseline.means["b"] == [0.7]
    assert task.score_baseline(baseline, list(task.read(sentences)))["r2"] == pytest.approx(1)


def counted(task: Any, data: Any) -> tuple[Any, list[Any]]:
    from collections import Counter

    examples = list(task.read(data))
    return Counter(target for example in examples for target in task.baseline_targets(example)), examples


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([("a", 0.5), ("b", float("nan")), ("c", 1.5)], "input:2: no label; training needs a label"),
        ([("a", 0.5), ("b", float("inf"))], "input:2: 'target': expected a finite number as the target, found inf"),
        ([("a", 0.5), ("b", "x")], "input:2: 'target': expected a number, found 'x'"),
        ([("a", 0.5), ("b", 0.5)], "t: all 2 numbers of 'target' are 0.5; is it the right column"),
        ([("a", [0.5, 1]), ("b", [0.5])], "input:2: expected 2 targets as in the first example, found 1"),
        ([("a", [0.5, None])], "input:1: 'label': expected a finite number as the target, found a missing value"),
    ],
)
def test_targets_that_cannot_be_learned_are_refused_with_their_place(data: Any, message: str) -> None:
    task = Classify(**SMALL, target_type="number")
    with pytest.raises(DataError, match=message):
        task.fit(task.read(data))


def test_a_class_model_refuses_numbers() -> None:
    task = Classify(**SMALL, target_type="class")
    with pytest.raises(DataError, match="input:1: expected a class, found numbers; task"):
        list(task.read([("a", [0.5, 1.5])]))
    for key, value in (("model", "hmm"), ("output", "crf")):
        with pytest.raises(ValueError, match=f'{key} is "{value}", which predicts classes'):
            Tag.model_validate({**SMALL, "target_type": "number", key: value})
    with pytest.raises(ValueError, match="several label columns hold numbers"):
        Classify(**SMALL, target_type="class", label_column=("a", "b"))


LONG = "id,t,x,u,v\n1,0,1,0.5,2\n1,1,2,0.25,4\n2,0,3,0.75,6\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def jsonl(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("t.csv", LONG, ("u", "v")),
        ("t.csv", "x,u,v\n1,0.5,2\n2,0.25,4\n\n3,0.75,6\n", ("u", "v")),
        ("t.csv", "1,0.5,2\n2,0.25,4\n\n3,0.75,6\n", (1, -1)),
        ("t.ts", "@timestamps false\n@data\n1,2:0.5,0.25:2,4\n3:0.75:6\n", (1, 2)),
        (
            "t.jsonl",
            jsonl({"values": [[1], [2]], "target": [[0.5, 2], [0.25, 4]]}, {"values": [[3]], "target": [[0.75, 6]]}),
            None,
        ),
        ("t.conll", "a 0.5 2\nb 0.25 4\n\nc 0.75 6\n", (1, 2)),
        ("t.npz", "", None),
    ],
    ids=["long", "frames", "no header", "ts", "jsonl", "conll", "npz"],
)
def test_numbers_at_each_step_are_read_from_every_format(tmp_path: Path, name: str, text: str, columns: Any) -> None:
    path = write(tmp_path / name, text)
    if name == "t.npz":
        labels = np.array([[0.5, 2], [0.25, 4], [0.75, 6]])
        np.savez(path, values=np.array([[1.0], [2], [3]]), lengths=np.array([2, 1]), labels=labels)
    task = Tag(**SMALL, label_column=columns).resolve(path)[0]
    assert task.target_type == "number"
    targets = [example.target for example in task.read(path)]
    assert [None if target is None else target.tolist() for target in targets] == [[[0.5, 2], [0.25, 4]], [[0.75, 6]]]
    if not name.endswith("conll"):
        assert [example.values.tolist() for example in task.read(path)] == [[[1], [2]], [[3]]]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("t.csv", "text,u,v\nhe is good,0.5,2\nhe is bad,0.25,4\n", ("u", "v")),
        ("t.csv", "a,b,c,u,v\n1,2,3,0.5,2\n4,5,6,0.25,4\n", ("u", "v")),
        ("t.csv", "id,t,x,u,v\n1,0,1,0.5,2\n1,1,2,0.5,2\n2,0,3,0.25,4\n", ("u", "v")),
        ("t.jsonl", jsonl({"text": "he is", "label": [0.5, 2]}, {"text": "he", "label": [0.25, 4]}), ""),
        ("t.npz", "", ""),
    ],
    ids=["texts", "rows", "long", "jsonl", "npz"],
)
def test_numbers_of_sequences_are_read_from_every_format(tmp_path: Path, name: str, text: str, columns: Any) -> None:
    path = write(tmp_path / name, text)
    if name == "t.npz":
        np.savez(path, x=np.zeros((2, 5, 3)), y=np.array([[0.5, 2], [0.25, 4]]))
    task = Classify(**SMALL, label_column=columns).resolve(path)[0]
    assert task.target_type == "number"
    assert [None if example.target is None else example.target.tolist() for example in task.read(path)] == [
        [0.5, 2],
        [0.25, 4],
    ]


def test_a_ts_file_with_a_target_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "t.ts", "@targetLabel true\n@data\n1,2,3:0.5\n4,5,6:?\n")
    first, second = Classify(**SMALL).read(path)
    assert first.target is not None
    assert (first.target.tolist(), second.target, second.label) == ([0.5], None, None)


def test_a_bad_number_is_reported_with_its_row(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", LONG.replace("0.25", "nan"))
    task = Tag(**SMALL, label_column="u", target_type="number")
    with pytest.raises(DataError, match=r"t\.csv:3: "):
        list(task.read(path))


def test_a_linear_model_recovers_a_linear_filter() -> None:
    """y_t = 0.5 x_t + 0.3 x_{t-1} - 0.2 x_{t-2} + 7: one causal convolution without an activation is that filter."""
    signals = [RANDOM.normal(size=(30, 1)) for _ in range(12)]
    taps = np.array([0.5, 0.3, -0.2])
    data = [(signal, (np.convolve(signal[:, 0], taps)[:30] + 7).tolist()) for signal in signals]
    settings = {"layers": 1, "size": 4, "window": 3, "activation": "none"}
    linear = {"layers": 0, "dropout": 0.0, "bidirectional": False}
    task, _ = fitted(Tag.model_validate({**SMALL, "input_dropout": 0.0, "prenet": settings, "encoder": linear}), data)
    torch.manual_seed(0)
    model = task.build_model()
    batch = task.collate(list(task.read(data)))
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Any:
        optimizer.zero_grad()
        total = task.loss(model, batch).total
        total.backward()
        return total

    optimizer.step(closure)
    model.eval()
    impulse = np.zeros((10, 1))
    impulse[4] = 1
    with torch.no_grad():
        answer, rest = task.predict(model, task.collate(list(task.read([impulse, np.zeros((10, 1))])))).answers
    response = np.array(answer.value) - np.array(rest.value)
    assert response[4:7] == pytest.approx(taps, abs=1e-3)
    assert np.delete(response, [4, 5, 6]) == pytest.approx(0, abs=1e-3)
    assert rest.value[5] == pytest.approx(7, abs=1e-2)


@pytest.mark.usefixtures("drawn_runs")
def test_columns_are_named_from_python(tmp_path: Path) -> None:
    table = {"text": ["a b", "b", "a", "b b"] * 3, "u": [0.5, 1.5, 0.25, 2.5] * 3, "v": [1.0, 2, 3, 4] * 3}
    settings = {"train.epochs": 1, "train.threads": 1, "task.encoder.hidden_size": 3, "task.embedding_size": 3}
    run = seqloom.train(
        overrides=settings,
        task="classify",
        data=table,
        dev=table,
        label=["u", "v"],
        output=tmp_path / "run",
        quiet=True,
    )
    (answer,) = seqloom.load(run).predict(["a b"])
    assert list(answer.values) == ["u", "v"]
    assert (tmp_path / "run" / "predicted.png").is_file()
    assert "Better than" in (card := (tmp_path / "run" / "README.md").read_text()) or "better than" in card


def test_check_shows_the_range_of_numbers() -> None:
    task = Classify(**SMALL, target_type="number")
    train, dev = (DatasetSummary(task.summarize_example, target_column="stars", keep=1) for _ in range(2))
    for summary, shift in ((train, 0.0), (dev, 10.0)):
        for example in task.read([(text, number + shift) for text, number in TEXTS]):
            summary.add(example)
    (numbers,) = train.split("t", None).targets
    expected = np.arange(8) / 7
    assert (numbers.name, numbers.minimum, numbers.maximum) == ("stars", 0, 1)
    assert (numbers.mean, numbers.standard_deviation) == pytest.approx((expected.mean(), expected.std()))
    assert "dev: stars is 10 to 11, outside of train, where it is 0 to 1" in compare_splits(train, dev)
    assert not train.labels


def test_explanations_of_numbers_add_up_to_the_value() -> None:
    data = [(signal, (3 * np.cumsum(signal)).tolist()) for signal in RANDOM.normal(size=(6, 5, 1))]
    task, _ = fitted(Tag.model_validate({**SMALL, "encoder": {"hidden_size": 3}}), data)
    model = task.build_model().eval()
    example = next(iter(task.read(data)))
    with torch.no_grad():
        (prediction,) = task.predict(model, task.collate([example])).answers
        explanation = task.attribute(model, example, prediction=prediction, method="integrated_gradients", word=3)
    assert (explanation.is_number, explanation.target, explanation.position) == (True, "target", 3)
    assert explanation.score == pytest.approx(prediction.value[2], abs=1e-5)
    assert explanation.baseline_score + sum(explanation.values) == pytest.approx(explanation.score, abs=0.02)
