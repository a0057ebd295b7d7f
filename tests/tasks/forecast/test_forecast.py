"""Forecasting: scales, losses and scores compared with NumPy; the model never sees the future."""

import gc
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from seqloom.answers import Answers
from seqloom.data.batch import Batch
from seqloom.data.loading import BatchLoader
from seqloom.data.readers.memory import IN_MEMORY
from seqloom.data.readers.series import Window
from seqloom.data.readers.text_files import WARNING, DataError
from seqloom.models.forecast_distributions import Reference
from seqloom.tasks.forecast import Forecast, ForecastPrediction, Learned

SMALL = {"cell": "gru", "hidden_size": 6}


def task(**fields: Any) -> Forecast:
    return Forecast.model_validate({"train": "x.csv", "history": 4, "horizon": 3, "encoder": SMALL} | fields)


def wave(length: int = 60, columns: int = 2, *, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
    random = np.random.default_rng(seed)
    steps = np.arange(length)[:, None] / 3 + np.arange(columns)
    values: np.ndarray[Any, np.dtype[np.float64]] = np.sin(steps) * 10.0 ** np.arange(columns) + 5
    return values + random.normal(size=(length, columns)) * 0.1


def write(folder: Path, values: Any, name: str = "x.csv") -> Path:
    np.savetxt(folder / name, values, delimiter=",", fmt="%.17g")
    return folder / name


def ranged(path: Path, rows: str) -> Path:
    return path.with_name(path.name + rows)


def randomize(model: nn.Module, *, seed: int = 0) -> nn.Module:
    """The model with random weights: an untrained one forecasts no change."""
    torch.manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


def answers(
    fitted: Forecast, model: nn.Module, examples: Sequence[Window], *, rows: int = 100
) -> list[ForecastPrediction]:
    with torch.no_grad():
        return [
            answer
            for start in range(0, len(examples), rows)
            for answer in fitted.predict(model, fitted.collate(examples[start : start + rows])).answers
        ]


class Oracle(nn.Module):
    """A model with a fixed forecast, in scaled units."""

    def __init__(self, forecast: Tensor, distribution: Any = None) -> None:
        super().__init__()
        self.values, self.distribution = forecast, distribution

    def calibrate(self) -> None:
        """Nothing is adjusted."""

    def numbers(self, _: Any, state: Any) -> tuple[Tensor, Reference, Any]:
        return self.values.unsqueeze(-1), Reference(torch.zeros(()), torch.ones(self.values.shape[2:])), state

    def forward(self, _: Any, state: Any) -> tuple[Tensor, Any]:
        return self.values, state


def test_a_column_of_unreadable_months_is_warned_of(tmp_path: Path) -> None:
    months = ["Jan", "Feb", "Mrca", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    rows = [f"{months[step % 12]} {2010 + step // 12},{step % 7}" for step in range(48)]
    (tmp_path / "x.csv").write_text("\n".join(["month,value", *rows]) + "\n")
    _, notes = task(train=str(tmp_path / "x.csv")).resolve(tmp_path / "x.csv")
    assert any("warning: column 'month' looks like dates, but 'Mrca 2010' cannot be read" in note for note in notes)


def test_windows_are_not_held_while_a_forecaster_is_fitted(tmp_path: Path) -> None:
    path, alive = write(tmp_path, wave(300)), []

    def windows() -> Iterator[Window]:
        yield from task().read(path)
        gc.collect()
        alive.append(sum(type(value) is Window and value.location.file == str(path) for value in gc.get_objects()))

    assert sum(1 for _ in task().read(path)) > 200
    task().fit(windows())
    assert alive[0] < 5


def test_training_needs_the_values_to_forecast(tmp_path: Path) -> None:
    path = write(tmp_path, wave(30))
    with pytest.raises(DataError, match=r"x.csv:30: the values to forecast are missing; training needs them"):
        task().fit(task().read_inputs(path))


def test_scales_come_from_the_training_rows(tmp_path: Path) -> None:
    values = wave(50)
    values[30:] += 1000  # would change the statistics
    path = write(tmp_path, values)
    fitted = task(season=7).fit(task().read(ranged(path, "[0:0.6]")))
    learned, train = fitted.learned, values[:30]
    assert learned is not None
    assert learned.columns == ("1", "2")
    np.testing.assert_allclose(learned.means, train.mean(axis=0))
    np.testing.assert_allclose(learned.deviations, train.std(axis=0))
    scaled = train / train.std(axis=0)
    np.testing.assert_allclose(learned.rms_changes, np.sqrt((np.diff(scaled, axis=0) ** 2).mean(axis=0)))
    changes = [np.sqrt(((scaled[step:] - scaled[:-step]) ** 2).mean(axis=0)) for step in (1, 2, 3)]
    np.testing.assert_allclose(learned.horizon_changes, changes)
    np.testing.assert_allclose(learned.naive_errors, np.abs(train[7:] - train[:-7]).mean(axis=0))
    assert Learned.model_validate_json(learned.model_dump_json()) == learned


def test_ranges_of_a_file_do_not_overlap_except_in_history(tmp_path: Path) -> None:
    path = write(tmp_path, np.arange(20.0))
    train, dev = (list(task().read(ranged(path, rows))) for rows in ("[0:12]", "[12:]"))
    forecast = [{float(value) for window in part for value in window.future(3).ravel()} for part in (train, dev)]
    assert forecast[0] == set(range(4, 12))
    assert forecast[1] == set(range(12, 20))
    assert dev[0].history.ravel().tolist() == [8, 9, 10, 11]


def test_gap_is_the_horizon_minus_one(tmp_path: Path) -> None:
    examples = list(task().read(write(tmp_path, np.arange(20.0))))
    train, dev = examples[:5], examples[5 + task().gap :]
    assert train[-1].future(3).max() + 1 == dev[0].future(3).min()


@pytest.mark.parametrize("history", [1, 2, 4])
def test_no_row_is_forecast_on_both_sides_of_the_gap(tmp_path: Path, history: int) -> None:
    chosen = task(output="every_step", history=history)
    examples = list(chosen.read(write(tmp_path, np.arange(30.0))))
    last, *between, first = examples[1 : 3 + chosen.gap]
    assert last.future(3, every_step=True).max() < first.future(3, every_step=True).min()
    assert not between or last.future(3, every_step=True).max() >= between[-1].future(3, every_step=True).min()
    assert task(output="every_step", history=0).gap == 0


@pytest.mark.parametrize("output", ["last", "every_step"])
def test_an_untrained_model_forecasts_the_last_value(tmp_path: Path, output: str) -> None:
    examples = list(task().read(write(tmp_path, wave())))
    fitted = task(output=output).fit(examples)
    examples = list(fitted.read(tmp_path / "x.csv"))
    scores = fitted.score(answers(fitted, fitted.build_model().eval(), examples), examples)
    assert scores["skill"] == pytest.approx(0, abs=1e-6)  # float32 in between
    assert scores["mse"] == pytest.approx(scores["last_mse"], rel=1e-5)


def test_training_beats_the_last_value(tmp_path: Path) -> None:
    torch.manual_seed(0)
    path = write(tmp_path, wave(200, 1))
    fitted = task(history=12).fit(task(history=12).read(ranged(path, "[0:150]")))
    train, dev = (list(fitted.read(ranged(path, rows))) for rows in ("[0:150]", "[150:]"))
    model = fitted.build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    batch = fitted.collate(train)
    for _ in range(60):
        loss = fitted.loss(model, batch)
        optimizer.zero_grad()
        (loss.total / loss.items).backward()
        optimizer.step()
    scores = fitted.score(answers(fitted, model.eval(), dev), dev)
    assert scores["skill"] > 0.8
    assert scores["mse_scaled"] < 0.2 * scores["last_mse_scaled"]


@pytest.mark.parametrize("output", ["last", "every_step"])
@pytest.mark.parametrize("error", ["mse", "mae", "huber"])
def test_the_loss_is_in_units_of_the_naive_error(tmp_path: Path, output: str, error: str) -> None:
    values = wave(12)
    examples = list(task(output=output).read(write(tmp_path, values)))
    fitted = task(output=output, loss_function=error, target=("2",)).fit(examples)
    assert fitted.learned is not None
    scaled = ((values - values.mean(axis=0)) / values.std(axis=0))[:, 1]
    ends = range(4, 10) if output == "last" else range(1, 10)
    truth = np.array([scaled[end : end + 3] for end in ends])
    forecast = np.random.default_rng(1).normal(size=truth.shape)
    far = (forecast - truth) / np.sqrt(np.square(fitted.learned.horizon_changes).mean())
    expected = {
        "mse": far**2,
        "mae": np.abs(far),
        "huber": np.where(np.abs(far) < 1, far**2 / 2, np.abs(far) - 0.5),
    }[error]
    batch = fitted.collate(examples)
    padded = torch.zeros(len(examples), batch.target.values.shape[1], 3, 1)
    padded[batch.target.mask] = torch.tensor(forecast, dtype=torch.float32).unsqueeze(-1)
    loss = fitted.loss(Oracle(padded, fitted.build_model().distribution), batch)
    assert loss.items == batch.items == len(truth)
    assert loss.total.item() == pytest.approx(expected.mean(axis=1).sum(), rel=1e-5)


def test_inputs_are_scaled_values_and_changes(tmp_path: Path) -> None:
    values = wave(20)
    path = write(tmp_path, values)
    fitted = task().fit(task().read(path))
    first, second = fitted.collate(list(fitted.read(path))[:2]).inputs.values
    scaled = (values - values.mean(axis=0)) / values.std(axis=0)
    changes = np.diff(scaled, axis=0)
    changes /= np.sqrt((changes**2).mean(axis=0))
    np.testing.assert_allclose(second[:, 0], scaled[1:5], rtol=1e-5)
    np.testing.assert_allclose(second[:, 1], changes[:4], rtol=1e-5)
    np.testing.assert_allclose(first[1:, 1], changes[:3], rtol=1e-5)
    assert first[0, 1].tolist() == [0, 0]  # before the first row there is nothing


@pytest.mark.parametrize(("inputs", "seen"), [("values", True), ("changes", False), ("both", True)])
def test_changes_alone_are_independent_of_the_level(inputs: str, seen: bool) -> None:
    fitted = task(inputs=inputs).fit(task().read([wave(30)]))
    model = randomize(fitted.build_model())
    low, high = (answers(fitted, model, list(fitted.read([wave(30) + level])))[3].values for level in (0, 3))
    assert np.allclose(np.array(high) - 3, low, atol=1e-4) != seen


def test_forecasts_are_in_the_units_of_the_data(tmp_path: Path) -> None:
    values = wave(20)
    examples = list(task().read(write(tmp_path, values)))
    fitted = task(target=("2",)).fit(examples)
    (answer,) = fitted.predict(Oracle(torch.tensor([[[[0.0], [1.0], [-2.0]]]])), fitted.collate(examples[:1])).answers
    mean, deviation = values[:, 1].mean(), values[:, 1].std()
    np.testing.assert_allclose(np.array(answer.values)[:, 0], [mean, mean + deviation, mean - 2 * deviation])
    assert answer.columns == ["2"]
    assert [float(line) for line in str(answer).splitlines()] == pytest.approx([row[0] for row in answer.values])
    assert asdict(answer)["values"] == answer.values


def test_scores_equal_numpy(tmp_path: Path) -> None:
    values = wave(30)
    fitted = task(season=5).fit(task().read(ranged(write(tmp_path, values), "[0:18]")))
    examples = list(fitted.read(ranged(tmp_path / "x.csv", "[18:]")))
    ends = np.arange(18, 28)
    truth = np.array([values[end : end + 3] for end in ends])
    forecast = truth + np.random.default_rng(1).normal(size=truth.shape)
    scores = fitted.score([ForecastPrediction(["1", "2"], rows, [], []) for rows in forecast.tolist()], examples)
    train = values[:18]
    last = np.repeat(values[ends - 1][:, None], 3, axis=1)
    seasonal = np.array([values[end - 5 : end - 2] for end in ends])
    deviation, naive = train.std(axis=0), np.abs(train[5:] - train[:-5]).mean(axis=0)
    expected = {
        "mse_scaled": (((forecast - truth) / deviation) ** 2).mean(),
        "mse": ((forecast - truth) ** 2).mean(),
        "mae": np.abs(forecast - truth).mean(),
        "mase": (np.abs(forecast - truth) / naive).mean(),
        "last_mse": ((last - truth) ** 2).mean(),
        "last_mse_scaled": (((last - truth) / deviation) ** 2).mean(),
        "seasonal_mse": ((seasonal - truth) ** 2).mean(),
        "seasonal_mse_scaled": (((seasonal - truth) / deviation) ** 2).mean(),
        "windows": 10,
    }
    expected["skill"] = 1 - expected["mse_scaled"] / expected["last_mse_scaled"]
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
    third = scores["per_step"]["3"]
    assert third["mse_scaled"] == pytest.approx((((forecast - truth)[:, 2] / deviation) ** 2).mean())
    assert third["last_mse_scaled"] == pytest.approx((((last - truth)[:, 2] / deviation) ** 2).mean())
    assert fitted.main_metric in scores
    second = scores["per_target"]["2"]
    assert second["mse"] == pytest.approx(((forecast - truth)[..., 1] ** 2).mean())
    assert second["last_mae"] == pytest.approx(np.abs(last - truth)[..., 1].mean())
    assert second["seasonal_mae"] == pytest.approx(np.abs(seasonal - truth)[..., 1].mean())


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"channel_independent": True},
        {"channel_independent": True, "inputs": "changes"},
        {"inputs": "values", "relative": False},
        {"prenet": {"layers": 1, "window": 3}},
    ],
)
def test_padding_and_other_rows_have_no_effect(fields: dict[str, Any]) -> None:
    series = [wave(length, seed=length) for length in (9, 5, 14)]
    every_step = task(output="every_step", history=0, **fields)
    examples = list(every_step.read(series))
    fitted = every_step.fit(examples)
    model = randomize(fitted.build_model())
    together, alone = answers(fitted, model, examples), answers(fitted, model, examples, rows=1)
    for left, right in zip(together, alone, strict=True):
        np.testing.assert_allclose(left.steps, right.steps, rtol=1e-5, atol=1e-5)  # float32
    batch = fitted.collate(examples)
    values = batch.inputs.values.masked_fill(~batch.inputs.mask[..., None, None], torch.nan)
    poisoned = batch._replace(inputs=batch.inputs._replace(values=values))
    for actual, expected in zip(_gradients(fitted, model, poisoned), _gradients(fitted, model, batch), strict=True):
        torch.testing.assert_close(actual, expected)


def _gradients(fitted: Forecast, model: nn.Module, batch: Batch) -> list[Tensor]:
    return list(torch.autograd.grad(fitted.loss(model, batch).total, list(model.parameters())))


@pytest.mark.parametrize("separate", [False, True])
def test_chunks_with_carried_state_equal_the_whole_series(separate: bool) -> None:
    whole = task(output="every_step", history=0, channel_independent=separate)
    fitted = whole.fit(whole.read([wave(21)]))
    model = randomize(fitted.build_model())
    (expected,) = answers(fitted, model, list(fitted.read([wave(21)])))
    state, steps = None, []
    for window in fitted.model_copy(update={"history": 5}).read([wave(21)]):
        with torch.no_grad():
            predictions = fitted.predict(model, fitted.collate([window])._replace(state=state))
        state = predictions.state
        steps += predictions.answers[0].steps
    np.testing.assert_allclose(steps, expected.steps, rtol=1e-5, atol=1e-5)  # float32


def test_concatenated_sequences_have_the_same_scores() -> None:
    pieced = task(output="every_step", history=7)
    examples = list(pieced.read([wave(40)]))
    fitted = pieced.fit(examples)
    model = randomize(fitted.build_model())
    batches = BatchLoader(lambda: iter(examples), fitted.collate, batch_size=1, bptt_steps=10, shuffle=False)
    state, cut = None, []
    with torch.no_grad():
        for (batch,) in batches.epoch(0):
            predictions = fitted.predict(model, batch._replace(state=state))
            state = predictions.state
            cut += predictions.answers
    whole = list(fitted.model_copy(update={"history": 0}).read([wave(40)]))
    actual, expected = fitted.score(cut, examples), fitted.score(answers(fitted, model, whole), whole)
    for name in ("per_step", "per_target"):
        assert actual.pop(name).keys() == expected.pop(name).keys()
    assert actual.pop("baselines") == expected.pop("baselines")
    assert actual == pytest.approx(expected, rel=1e-5)


def test_independent_channels_do_not_see_each_other() -> None:
    values = wave(30, 3)
    fitted = task(channel_independent=True, target=("3", "1")).fit(task().read([values]))
    model = randomize(fitted.build_model())
    before = answers(fitted, model, list(fitted.read([values])))
    values[:, 1] *= -7
    assert answers(fitted, model, list(fitted.read([values]))) == before
    values[:, 2] *= -7
    after = answers(fitted, model, list(fitted.read([values])))
    assert [row[1] for row in after[0].values] == [row[1] for row in before[0].values]
    assert [row[0] for row in after[0].values] != [row[0] for row in before[0].values]


def test_forecast_after_the_end_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path, wave())
    fitted = task().fit(task().read(path)).model_copy(update={"last_window_only": True})
    (window,) = fitted.read(path)
    np.testing.assert_array_equal(window.history, wave()[-4:])
    (answer,) = answers(fitted, fitted.build_model().eval(), [window])
    np.testing.assert_allclose(answer.values, np.repeat(wave()[-1:], 3, axis=0), rtol=1e-6)
    (same,) = answers(fitted, fitted.build_model().eval(), list(fitted.read([wave()])))
    assert same.values == answer.values
    with pytest.raises(DataError, match=r"x.csv:60: the values to forecast are missing; evaluation needs them"):
        fitted.score([answer], [window])
    with pytest.raises(DataError, match="training needs them"):
        fitted.fit([window])
    with pytest.raises(ValueError, match="cannot compute the loss"):
        fitted.loss(fitted.build_model(), fitted.collate([window]))


def test_a_fitted_task_finds_its_columns_by_name() -> None:
    fitted = task(columns=("b", "a")).fit(task(columns=("b", "a")).read(["a,b"] + [f"{t},{-t}" for t in range(9)]))
    window = next(fitted.read(["b,c,a"] + [f"{t},x,{2 * t}" for t in range(9)]))
    assert window.history.tolist() == [[t, 2 * t] for t in range(4)]
    with pytest.raises(DataError, match="no column 'b'"):
        next(fitted.read(["a", "1", "2"]))
    with pytest.raises(DataError, match=r"expected 2 columns \(b, a\), found 1"):
        next(fitted.read([np.ones(9)]))


@pytest.mark.parametrize("output", ["last", "every_step"])
def test_binary_frames_have_a_likelihood(output: str) -> None:
    frames = (np.random.default_rng(0).random((12, 5)) < 0.3).astype(float)
    binary = task(data_type="binary", output=output, horizon=1)
    examples = list(binary.read([frames]))
    fitted = binary.fit(examples)
    model = randomize(fitted.build_model())
    batch = fitted.collate(examples)
    logits = model(batch.inputs, None)[0][batch.target.mask].double().detach().numpy()[:, 0]
    truth = frames[4 if output == "last" else 1 :]
    chance = 1 / (1 + np.exp(-logits))
    expected = -(truth * np.log(chance) + (1 - truth) * np.log(1 - chance)).sum(axis=1)
    loss = fitted.loss(model, batch)
    assert loss.items == len(truth)
    assert loss.total.item() == pytest.approx(expected.sum(), rel=1e-5)
    scores = fitted.score(answers(fitted, model, examples), examples)
    assert scores["nll"] == pytest.approx(expected.mean(), rel=1e-6)
    assert scores["frames"] == len(truth)
    right, counted = ((chance > 0.5) & (truth == 1)).sum(), ((chance > 0.5) | (truth == 1)).sum()
    assert scores["accuracy"] == pytest.approx(right / counted)
    assert (fitted.main_metric, fitted.higher_is_better) == ("nll", False)


def test_binary_forecasts_start_at_the_feature_frequencies() -> None:
    frames = (np.random.default_rng(0).random((200, 5)) < [0.5, 0.1, 0.2, 0.0, 1.0]).astype(float)
    binary = task(data_type="binary", horizon=1)
    fitted = binary.fit(binary.read([frames]))
    model = fitted.build_model()
    model.get_parameter("head.weight").data.zero_()
    (first, *_) = answers(fitted, model, list(fitted.read([frames])))
    np.testing.assert_allclose(first.values[0], frames.mean(axis=0).clip(1e-3, 1 - 1e-3), rtol=1e-5)


def test_values_that_are_not_binary(tmp_path: Path) -> None:
    path = write(tmp_path, [[0, 1], [1, 1], [0, 2]])
    with pytest.raises(DataError, match=r"x.csv:3: found a value other than 0 and 1"):
        list(task(data_type="binary").read(path))


def test_constant_columns() -> None:
    values = np.concatenate([wave(20, 1), np.full((20, 1), 3.0)], axis=1)
    fitted = task().fit(task().read([values]))
    examples = list(fitted.read([values]))
    model = randomize(fitted.build_model())
    predictions = answers(fitted, model, examples)
    assert all(value == pytest.approx(3) for answer in predictions for _, value in answer.values)
    assert all(np.isfinite(value) for value in fitted.score(predictions, examples).values() if isinstance(value, float))
    alone = task().fit(task().read([values[:, :1]]))
    shorter = [replace(answer, values=[row[:1] for row in answer.values]) for answer in predictions]
    windows = list(alone.read([values[:, :1]]))
    actual, expected = fitted.score(predictions, examples), alone.score(shorter, windows)
    assert actual.pop("per_step").keys() == expected.pop("per_step").keys()
    for name, errors in expected.pop("baselines").items():
        assert actual["baselines"][name] == pytest.approx(errors)
    del actual["baselines"]
    assert actual == pytest.approx(expected)  # the constant column dilutes nothing
    baseline = fitted.fit_baseline(Counter(), examples)
    assert baseline is not None
    assert fitted.score_baseline(baseline, examples) == pytest.approx(alone.score_baseline(baseline, windows))
    sums, single = fitted.metric_sums(predictions, examples), alone.metric_sums(shorter, windows)
    assert sums.value(sums.rows.sum(axis=0)) == pytest.approx(single.value(single.rows.sum(axis=0)))
    still = [np.full((20, 1), 3.0)]
    fitted = task().fit(task().read(still))
    scores = fitted.score(answers(fitted, fitted.build_model(), list(fitted.read(still))), list(fitted.read(still)))
    assert scores["mse"] == 0
    assert not {"mase", "skill", "correlation", "rse"} & scores.keys()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"history": 0}, 'history is 0, which needs output = "every_step"'),
        ({"encoder": {"bidirectional": True}}, "a forecast must not see later values"),
        ({"columns": ("a",), "target": ("b",)}, "target 'b' is not one of task.columns"),
        ({"horizon": 0}, "greater than or equal to 1"),
        ({"separator": "--"}, "at most 1 character"),
    ],
)
def test_conflicting_settings(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        task(**fields)


def test_missing_columns_and_rows(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x.csv: found no examples to train on"):
        task().fit([])
    with pytest.raises(DataError, match=r"no column 'oil' \(task\.target\); found 1, 2"):
        task(target=("oil",)).fit(task().read([wave()]))
    with pytest.raises(ValueError, match="the task is not fitted"):
        task().build_model()
    with pytest.raises(DataError, match=r"3 rows, expected at least task.history \+ task.horizon"):
        list(task().read(write(tmp_path, np.arange(3.0))))


def write_years(path: Path, years: range) -> Path:
    rows = [f"{year},{12465000 + 1000 * (year * 7 % 13)}" for year in years]
    path.write_text("\n".join(["year,births", *rows]) + "\n")
    return path


def test_the_time_axis_is_named_and_not_forecast(tmp_path: Path) -> None:
    path = write_years(tmp_path / "x.csv", range(1900, 1960))
    resolved, notes = task(train=str(path)).resolve(path)
    assert notes == ("time axis from column 1 'year' (1900 to 1959, step 1), which is neither read nor forecast",)
    assert resolved.date == "year"
    assert next(resolved.read(path)).series.names == ("births",)
    chosen, _ = task(train=str(path), target=("year",)).resolve(path)
    assert chosen.date == ""
    assert next(chosen.read(path)).series.names == ("year", "births")


def test_forecasts_have_dates_and_the_digits_that_matter(tmp_path: Path) -> None:
    path = write_years(tmp_path / "x.csv", range(1900, 1960))
    fitted = task().fit(task().read(path))
    (window,) = fitted.read_inputs(path)
    (answer,) = answers(fitted, randomize(fitted.build_model()), [window])
    assert answer.times == ["1960", "1961", "1962"]
    assert [line.split(",")[0] for line in str(answer).splitlines()] == answer.times
    assert all(len(f"{value:.9g}".partition(".")[2]) <= 3 and value > 1e7 for (value,) in answer.values)
    assert "e" not in str(answer)
    header, *rows = path.read_text().splitlines()
    (other,) = fitted.read_inputs(["births", *(row.split(",")[1] for row in rows)])  # without the years
    (same,) = answers(fitted, randomize(fitted.build_model()), [other])
    assert (same.values, same.times) == (answer.values, [])
    assert header == "year,births"


def test_a_short_dev_file_takes_its_history_from_the_training_file(tmp_path: Path) -> None:
    train, dev = write_years(tmp_path / "t.csv", range(1900, 1930)), write_years(tmp_path / "d.csv", range(1930, 1936))
    chosen = task(train=str(train), dev=str(dev))
    resolved, (_, short, few) = chosen.resolve(train)
    assert short.startswith(f"dev file {dev}: 6 rows, fewer than task.history + task.horizon (4 + 3); it continues")
    assert few.startswith("the development data allow only 4 forecasts")
    windows = list(resolved.read(dev))
    assert [len(window) for window in windows] == [4] * 4
    whole = list(task().read(ranged(write_years(tmp_path / "w.csv", range(1900, 1936)), "[30:]")))
    for actual, expected in zip(windows, whole, strict=True):
        np.testing.assert_array_equal(actual.history, expected.history)
        np.testing.assert_array_equal(actual.future(3), expected.future(3))


def test_the_dev_file_is_read_by_the_names_of_its_columns(tmp_path: Path) -> None:
    train, dev, other = (tmp_path / name for name in ("t.csv", "d.csv", "e.csv"))
    train.write_text("date,a,b\n" + "".join(f"2024-01-{day:02},{day},{day * 10}\n" for day in range(1, 16)))
    dev.write_text("date,b,a\n" + "".join(f"2024-02-{day:02},{day * 10},{day}\n" for day in range(1, 16)))
    other.write_text("date,a,c\n" + "".join(f"2024-02-{day:02},{day},{day * 10}\n" for day in range(1, 16)))
    resolved, _ = task(train=str(train), dev=str(dev)).resolve(train)
    first = next(iter(resolved.read(dev)))
    assert first.series.names == ("a", "b")
    np.testing.assert_array_equal(first.history, [[day, day * 10] for day in range(1, 5)])
    with pytest.raises(DataError, match=r"e\.csv:1: no column 'b'"):
        list(resolved.read(other))


@pytest.mark.parametrize(
    ("years", "warning"),
    [
        (range(1930, 1940), None),
        (range(1880, 1895), r"its time \(1880 to 1894\) lies before that of the training data"),
        (range(1920, 1940), r"its time \(1920 to 1939\) overlaps that of the training data"),
        (range(1900, 1930), r"its time \(1900 to 1929\) overlaps that of the training data"),
    ],
)
def test_a_dev_file_that_does_not_follow_the_training_file_is_reported(
    years: range, warning: str | None, tmp_path: Path
) -> None:
    train, dev = write_years(tmp_path / "t.csv", range(1900, 1930)), write_years(tmp_path / "d.csv", years)
    _, notes = task(train=str(train), dev=str(dev)).resolve(train)
    warnings = [note for note in notes if note.startswith(WARNING)]
    assert len(warnings) == (warning is not None)
    if warning is not None:
        assert re.match(f"{WARNING}dev file {dev}: {warning}", warnings[0])


def test_a_dev_file_with_the_same_rows_and_no_dates_is_reported(tmp_path: Path) -> None:
    train, dev = tmp_path / "t.csv", tmp_path / "d.csv"
    for path in (train, dev):
        path.write_text("".join(f"{number % 7}\n" for number in range(20)))
    _, notes = task(train=str(train), dev=str(dev)).resolve(train)
    assert [note.removeprefix(WARNING) for note in notes if note.startswith(WARNING)] == [
        f"dev file {dev}: it has the same rows as the training data, so that its scores say nothing about new data"
    ]


def test_a_short_file_that_continues_nothing_is_refused(tmp_path: Path) -> None:
    train, dev = write_years(tmp_path / "t.csv", range(1900, 1930)), write_years(tmp_path / "d.csv", range(1931, 1937))
    with pytest.raises(
        DataError, match=r"d.csv:2: 6 rows, expected at least .* \(4 \+ 3\): set task.history to at most 2"
    ):
        task(train=str(train), dev=str(dev)).resolve(train)
    with pytest.raises(DataError, match="6 rows, expected at least"):
        list(task(train=str(train)).read(dev))


def test_irregular_and_descending_time_stamps(tmp_path: Path) -> None:
    rows = [f"2020-01-{day:02},{day % 4}" for day in (*range(1, 9), *range(10, 20))]
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["day,load", *rows]))
    _, notes = task(train=str(path)).resolve(path)
    assert "irregular time stamps: 1 after a gap (first " in notes[1]
    assert notes[1].startswith("warning: irregular")
    assert f"{path}:10; 1 missing in the longest)" in notes[1]
    path.write_text("\n".join(["day,load", *rows[::-1]]))
    with pytest.raises(
        DataError, match=r"x\.csv:3: time runs backwards in column 'day'; sort the rows by time, the oldest first"
    ):
        task(train=str(path)).resolve(path)


def test_many_columns_are_not_searched_one_by_one() -> None:
    """With 10^5 columns a search for each takes minutes."""

    class Names(tuple[str, ...]):
        __slots__ = ()

        def index(self, *_: Any) -> int:
            raise AssertionError("searched")

        def __contains__(self, _: object) -> bool:
            raise AssertionError("searched")

    assert Forecast(train="x")._targets(Names(("a", "b", "c"))) == [0, 1, 2]
    assert Forecast(train="x", target=("c", "a"))._targets(Names(("a", "b", "c"))) == [2, 0]


def test_a_frame_whose_index_is_not_in_order_is_refused() -> None:
    pandas = pytest.importorskip("pandas")
    days = pandas.date_range("2020-01-01", periods=60, name="day")
    frame = pandas.DataFrame({"load": range(60)}, index=days)
    read = task(train=IN_MEMORY).resolve
    with pytest.raises(DataError, match=r"time runs backwards in the index 'day'; sort the rows by time"):
        read(frame[::-1])
    with pytest.raises(DataError, match=r"the index 'day'.*; sort the rows by time"):
        read(frame.sample(frac=1, random_state=3))
    swapped = [
        day for pair in zip(range(0, 60, 3), range(1, 60, 3), range(2, 60, 3), strict=True) for day in pair[::-1]
    ]
    with pytest.raises(DataError, match=r"sort the rows by time"):
        read(frame.iloc[swapped])


def test_columns_that_never_change_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["year,store,load", *(f"{1900 + row},1,{row % 5}" for row in range(40))]))
    _, notes = task(train=str(path)).resolve(path)
    assert "columns that never change do not count in the scores: store" in notes


def test_the_columns_to_forecast_are_listed_unless_they_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n" + "".join(f"{number % 7},{number % 5},{number % 3}\n" for number in range(40)))
    _, notes = task(train=str(path)).resolve(path)
    assert (
        "all 3 columns are forecast, and the scores are means over them: a, b, c; task.target names those to forecast, "
        "and the others are still read"
    ) in notes
    _, notes = task(train=str(path), target=("a",)).resolve(path)
    assert not [note for note in notes if "are forecast" in note]
    _, notes = task(train=str(path), future_covariates=("b", "c")).resolve(path)
    assert not [note for note in notes if "are forecast" in note]


def test_a_forecast_from_less_than_the_history_has_a_warning(tmp_path: Path) -> None:
    fitted = task().fit(task().read([wave(20)]))
    model = fitted.build_model()
    (answer,) = answers(fitted, model, list(fitted.read_inputs([wave(3)])))
    assert answer.warning.startswith("forecast from 3 rows, but the model was trained with 4 (task.history)")
    assert all(not each.warning for each in answers(fitted, model, list(fitted.read_inputs([wave(4), wave(9)]))))
    train, dev = write_years(tmp_path / "t.csv", range(1900, 1930)), write_years(tmp_path / "d.csv", range(1930, 1933))
    assert task(train=str(train), dev=str(dev)).fit(task().read(train)).dev_is_short
    assert not task(train=str(train), dev=str(train)).fit(task().read(train)).dev_is_short


def test_a_fitted_task_reads_numbers_and_dates_as_in_training(tmp_path: Path) -> None:
    days = [f"{day:02}/04/2020" for day in range(3, 13)]  # days of April, or months with the same day
    asked = tmp_path / "asked.csv"
    asked.write_text("day;load\n" + "".join(f"{day};1.{number}\n" for number, day in enumerate(days, start=230)))

    def answer(dates: Sequence[str], number: str) -> ForecastPrediction:
        path = tmp_path / "train.csv"
        rows = (f"{date};{number.format(day)}\n" for day, date in enumerate(dates, start=20))
        path.write_text("day;load\n" + "".join(rows))
        resolved, _ = task(train=str(path)).resolve(path)
        fitted = resolved.fit(resolved.read(path))
        (result,) = answers(fitted, fitted.build_model(), list(fitted.read_inputs(asked)))
        return result

    german = answer([f"{day}/04/2020" for day in range(13, 29)], "{},5")
    assert german.times == ["2020-04-13", "2020-04-14", "2020-04-15"]
    assert german.values[0] == pytest.approx([1239])
    assert not german.warning
    plain = answer([f"2020-04-{day}" for day in range(13, 29)], "{}.5")
    assert plain.values[0] == pytest.approx([1.239])
    assert plain.times == []
    assert plain.warning.startswith("no time stamps, since the dates can be read with the day or the month first")
    asked.write_text(asked.read_text().replace("1.", "1,"))
    assert answer([f"2020-04-{day}" for day in range(13, 29)], "{}.5").values[0] == pytest.approx([1239])


def test_one_column_needs_no_list() -> None:
    chosen = Forecast.model_validate({"train": "x.csv", "target": "sales", "columns": "sales"})
    assert (chosen.target, chosen.columns) == (("sales",), ("sales",))
    listed = Forecast.model_validate({"train": "x.csv", "target": ["a", "b"]}, strict=True)
    assert listed.target == ("a", "b")


def test_the_season_of_monthly_data_is_found_and_judges(tmp_path: Path) -> None:
    months = [f"{year}-{month:02}-01,{month * 10 + year % 2}" for year in range(2010, 2016) for month in range(1, 13)]
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["month,sales", *months]))
    resolved, _ = task(train=str(path)).resolve(path)
    assert resolved.season == 12
    assert task(train=str(path), season=1).resolve(path)[0].season == 1
    fitted = resolved.fit(resolved.read(path))
    examples = list(fitted.read(path))[20:]
    baseline = fitted.fit_baseline(Counter(), [])
    assert baseline is not None
    assert baseline.lag == 12
    predictions = answers(fitted, fitted.build_model(), examples)
    scores = fitted.score(predictions, examples)
    assert scores["seasonal_mse"] < scores["last_mse"]
    assert predictions[0].legend == "columns: sales"


def test_a_warm_start_needs_the_targets_and_the_horizon_of_the_run() -> None:
    values = wave()
    both = task(train="new.csv").fit(list(task().read([values])))
    one = task(target=("2",)).fit(list(task().read([values])))
    message = r"^new\.csv: found the targets 1, 2, but the run to start from forecasts 2: set task\.target=2$"
    with pytest.raises(DataError, match=message):
        both.share_learned(one)
    with pytest.raises(DataError, match=r"forecasts 1, 2: set task\.target='\[\"1\", \"2\"\]'$"):
        one.share_learned(both)
    short = task(horizon=2).fit(list(task(horizon=2).read([values])))
    with pytest.raises(DataError, match=r"task\.horizon is 3, but .* set task\.horizon=2$"):
        both.share_learned(short)
    assert both.share_learned(both.fit(list(both.read([2 * values])))).learned != both.learned


def test_answers_show_forecasts_as_tables() -> None:
    band = np.array([[[0.5, 1.5]], [[1.5, 2.5]]], np.float32)
    answer = ForecastPrediction(
        ["sales"], [[1.0], [2.0]], [], [], ["2024-01", "2024-02"], levels=(0.1, 0.9), bands=band
    )
    table = ["time     sales  sales 0.1  sales 0.9", "2024-01  1      0.5        1.5", "2024-02  2      1.5        2.5"]
    assert repr(Answers([answer])).splitlines() == table
    assert str(answer) == "2024-01,1,0.5,1.5\n2024-02,2,1.5,2.5"
    alone = ForecastPrediction(["1"], [[1.0]], [], [])
    assert repr(Answers([alone, alone])).splitlines() == ["step  1", "1     1", "", "step  1", "1     1"]
    assert str(alone) == "1"


def test_a_history_with_filled_values_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("load,wind\n1,2\n,3\n3,4\n4,\n,\n6,7\n")
    task = Forecast(train=str(path), history=3, horizon=1, fill_missing=True)
    (window,) = task.read_inputs(path)
    assert task.input_warning(window) == (
        "the history has missing values, which repeat the previous one: "
        f"load 1 (first {path}:6), wind 2 (at most 2 in a row, first {path}:5)"
    )
    assert [(each.name, each.total, each.is_target) for each in task.summarize_example(window).missing] == [
        ("load", 2, True),
        ("wind", 2, True),
    ]
    (whole,) = task.model_copy(update={"target": ("load",), "history": 1}).read_inputs(path)
    assert task.input_warning(whole) == ""
    assert [each.is_target for each in whole.series.missing] == [True, False]


def test_filled_values_of_arrays_are_counted(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([[1.0, np.nan, np.nan, 4.0, 5.0]])[..., None])
    task = Forecast(train=str(tmp_path / "x.npz"), history=2, horizon=1)
    with pytest.raises(DataError, match=r"task\.fill_missing=true repeats the previous one"):
        list(task.read(tmp_path / "x.npz"))
    first, *_ = task.model_copy(update={"fill_missing": True}).read(tmp_path / "x.npz")
    assert [(each.total, each.longest) for each in task.summarize_example(first).missing] == [(2, 2)]
