"""Columns that are known in advance: learned from, read at the steps to forecast, and nothing else of the future."""

from pathlib import Path

import numpy as np
import pytest
import torch

from seqloom.data.readers.series import Window
from seqloom.data.readers.text_files import DataError
from seqloom.models.forecaster import ForecastInputs
from seqloom.tasks.forecast import Forecast

ROWS = 240


def sales(folder: Path, *, ahead: str = "", name: str = "sales.csv") -> Path:
    """Daily sales that a promotion triples; promotions come at random, so that the past does not show them."""
    draw = np.random.default_rng(0)
    days = np.datetime64("2024-01-01") + np.arange(ROWS)
    promotion = draw.integers(0, 2, ROWS)
    numbers = 10 + 20 * promotion + draw.normal(size=ROWS)
    rows = [f"{day},{one},{value:.4f}\n" for day, one, value in zip(days, promotion, numbers, strict=True)]
    path = folder / name
    path.write_text("date,promotion,sales\n" + "".join(rows) + ahead)
    return path


def task(path: Path, **fields: object) -> Forecast:
    values = {
        "train": str(path),
        "history": 3,
        "horizon": 2,
        "season": 1,
        "encoder": {"cell": "gru", "hidden_size": 8},
        "future_covariates": "promotion",
        "date": "date",
    }
    return Forecast.model_validate(values | fields)


def train(path: Path, **fields: object) -> tuple[Forecast, torch.nn.Module, list[Window]]:
    fitted = task(path, **fields)
    examples = list(fitted.read(path))
    fitted = fitted.fit(examples)
    torch.manual_seed(0)
    model = fitted.build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    batch = fitted.collate(examples)
    for _ in range(60):
        loss = fitted.loss(model, batch)
        optimizer.zero_grad()
        (loss.total / loss.items).backward()
        optimizer.step()
    return fitted, model.eval(), examples


@pytest.mark.parametrize("output", ["last", "every_step"])
@pytest.mark.parametrize("independent", [False, True])
def test_the_effect_of_a_covariate_is_learned(tmp_path: Path, output: str, independent: bool) -> None:
    path = sales(tmp_path)
    fitted, model, examples = train(path, output=output, channel_independent=independent)
    with torch.no_grad():
        scores = fitted.score(fitted.predict(model, fitted.collate(examples)).answers, examples)
    assert scores["skill"] > 0.8  # of the noise of the sales alone, 0.995 is possible
    # Two weeks, of which the first has a promotion on its first day only.
    later = sales(tmp_path, ahead="2024-08-28,1,\n2024-08-29,0,\n", name="later.csv")
    with torch.no_grad():
        (answer,) = fitted.predict(model, fitted.collate(list(fitted.read_inputs(later)))).answers
    assert answer.columns == ["sales"]
    assert answer.times == ["2024-08-28", "2024-08-29"]
    (with_promotion,), (without,) = answer.values
    assert with_promotion > 22
    assert without < 18


def test_inputs_are_the_scaled_columns_of_the_history_and_the_horizon(tmp_path: Path) -> None:
    path = sales(tmp_path)
    fitted = task(path, channel_independent=True)
    examples = list(fitted.read(path))
    fitted = fitted.fit(examples)
    values = examples[0].series.values[:, 0]  # all rows are the training data
    scaled = (values - values.mean()) / values.std()
    for window in (examples[0], examples[7]):
        inputs = fitted.collate([window]).inputs
        assert isinstance(inputs, ForecastInputs)
        np.testing.assert_allclose(inputs.known[0, :, 0], scaled[window.start : window.stop], atol=1e-5)
        np.testing.assert_allclose(inputs.future[0, 0, :, 0], scaled[window.stop : window.stop + 2], atol=1e-5)
    shared = task(path).fit(examples)
    inputs = shared.collate(examples[:1]).inputs
    assert inputs.known.shape == (1, 3, 0)  # the encoder reads the column with the others
    assert inputs.future.shape == (1, 1, 2, 1)


def test_the_values_to_forecast_are_not_read(tmp_path: Path) -> None:
    path = sales(tmp_path)
    fitted, model, examples = train(path)
    window = examples[20]
    with torch.no_grad():
        (before,) = fitted.predict(model, fitted.collate([window])).answers
        window.series.values[window.stop :, 1] = 1e6
        (after,) = fitted.predict(model, fitted.collate([window])).answers
        window.series.values[window.stop, 0] = 1 - window.series.values[window.stop, 0]
        (other,) = fitted.predict(model, fitted.collate([window])).answers
    assert before.values == after.values
    assert abs(other.values[0][0] - before.values[0][0]) > 8
    assert other.values[1] == before.values[1]


def test_rows_ahead_are_not_data(tmp_path: Path) -> None:
    plain, longer = sales(tmp_path), sales(tmp_path, ahead="2024-08-28,1,\n2024-08-29,0,\n", name="longer.csv")
    one, other = ([(w.start, w.stop) for w in task(path).read(path)] for path in (plain, longer))
    assert one == other
    for fill in (False, True):
        fitted = task(longer, fill_missing=fill).fit(list(task(longer, fill_missing=fill).read(longer)))
        assert fitted.fitted.means == task(plain).fit(list(task(plain).read(plain))).fitted.means


@pytest.mark.parametrize(
    ("ahead", "message"),
    [
        ("", r"expected the values of promotion at the 2 steps to forecast .*, found 0: append rows"),
        ("2024-08-28,1,\n", r"found 1: append rows in which the other columns are empty"),
        ("2024-08-28,1,\n2024-08-29,,\n", r":243: column promotion: missing value"),
        ("2024-08-28,1,\n2024-08-29,0,3\n", r":242: column sales: missing value; train again with task.fill_missing"),
    ],
)
def test_incomplete_rows_ahead(tmp_path: Path, ahead: str, message: str) -> None:
    path = sales(tmp_path)
    fitted = task(path).fit(list(task(path).read(path)))
    later = sales(tmp_path, ahead=ahead, name="later.csv")
    with pytest.raises(DataError, match=message):
        fitted.collate(list(fitted.read_inputs(later)))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"target": "promotion"}, "target 'promotion' is one of the covariates"),
        ({"columns": ("sales",)}, "future_covariates 'promotion' is not one of task.columns"),
        ({"data_type": "binary"}, "covariates need data_type"),
    ],
)
def test_conflicting_settings(tmp_path: Path, fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        task(tmp_path / "sales.csv", **fields)


def test_unknown_columns_and_nothing_to_forecast(tmp_path: Path) -> None:
    path = sales(tmp_path)
    with pytest.raises(DataError, match="no column 'promotions': did you mean promotion"):
        list(task(path, future_covariates="promotions").read(path))
    everything = task(path, future_covariates=("promotion", "sales"))
    with pytest.raises(DataError, match="all columns are covariates"):
        everything.fit(list(everything.read(path)))


# Several series in long form


def shops(folder: Path, *, ahead: bool = False, order: str = "blocks") -> Path:
    """Three shops of another size, whose sales follow the promotion by as much as they are large."""
    draw = np.random.default_rng(1)
    rows = []
    for number, (name, size) in enumerate((("north", 1), ("south", 3), ("west 2", 2))):
        for day in range(60 + 10 * number):
            promotion = int(draw.integers(0, 2))
            value = 10 + 5 * size * promotion + 0.3 * draw.normal()
            date = np.datetime64("2024-01-01") + day
            rows.append((date, name, f"{date},{name},{size},{promotion},{value:.4f}\n"))
        for day in range(60 + 10 * number, 62 + 10 * number) if ahead else ():
            date = np.datetime64("2024-01-01") + day
            rows.append((date, name, f"{date},{name},,1,\n"))
    if order == "dates":
        rows.sort(key=lambda row: row[0])
    path = folder / f"shops-{order}-{ahead}.csv"
    path.write_text("date,shop,size,promotion,sales\n" + "".join(row for _, _, row in rows))
    return path


LONG = {"group_column": "shop", "static_covariates": "size", "dev": "dev.csv"}


@pytest.mark.parametrize("order", ["blocks", "dates"])
def test_the_rows_of_each_series_are_those_of_its_name(tmp_path: Path, order: str) -> None:
    path = shops(tmp_path, order=order)
    windows = list(task(path, **LONG).read(path))
    lines = [line.split(",") for line in path.read_text().splitlines()[1:]]
    for name in ("north", "south", "west 2"):
        expected = [list(map(float, fields)) for _, shop, *fields in lines if shop == name]
        own = [window for window in windows if window.identity == name]
        assert len(own) == len(expected) - 3 - 2 + 1
        np.testing.assert_array_equal(own[0].series.values, expected)
        assert own[0].series.names == ("size", "promotion", "sales")
        assert lines[own[0].location.line - 2][1] == name


def test_a_range_selects_rows_of_each_series(tmp_path: Path) -> None:
    path = shops(tmp_path)
    chosen = path.with_name(f"{path.name}[0.5:1]")
    series = {window.identity: window.series for window in task(path, **LONG).read(chosen)}
    assert {name: (one.start, one.stop) for name, one in series.items()} == {
        "north": (30, 60),
        "south": (35, 70),
        "west 2": (40, 80),
    }


def test_series_and_their_covariates_are_learned_together(tmp_path: Path) -> None:
    path = shops(tmp_path)
    fitted, model, _ = train(path, **LONG)
    later = list(fitted.read_inputs(shops(tmp_path, ahead=True)))
    assert [window.identity for window in later] == ["north", "south", "west 2"]
    inputs = fitted.collate(later).inputs
    assert isinstance(inputs, ForecastInputs)
    sizes = inputs.future[:, 0, :, 1]  # after the promotion; the same at each step
    assert torch.equal(sizes[:, 0], sizes[:, 1])
    assert sizes[0, 0] < sizes[2, 0] < sizes[1, 0]
    with torch.no_grad():
        answers = fitted.predict(model, fitted.collate(later)).answers
    first = [answer.values[0][0] for answer in answers]
    assert first[0] == pytest.approx(15, abs=3)
    assert first[1] == pytest.approx(25, abs=3)
    assert first[0] < first[2] < first[1]
    assert answers[0].times == ["2024-03-01", "2024-03-02"]
    assert answers[2].times == ["2024-03-21", "2024-03-22"]


def test_mistakes_in_long_tables(tmp_path: Path) -> None:
    path = shops(tmp_path)
    with pytest.raises(DataError, match=r"no column 'store' \(task\.group_column\); the file has date, shop, size"):
        list(task(path, **LONG | {"group_column": "store"}).read(path))
    with pytest.raises(ValueError, match=r"group_column needs dev, such as .* the last series would be held out"):
        task(path, **LONG | {"dev": ""})
    path.write_text(path.read_text().replace("2024-01-05,south,3", "2024-01-05,south,4"))
    with pytest.raises(DataError, match=r":66: column size \(task\.static_covariates\): expected 3 .*, found 4"):
        list(task(path, **LONG).read(path))
    path.write_text(path.read_text().replace("2024-01-07,south", "2024-01-07,"))
    with pytest.raises(DataError, match=r":68: column shop: expected the name of a series, found nothing"):
        list(task(path, **LONG).read(path))
    path.write_text("date,shop,size,promotion,sales\n2024-01-01,a,1,0,2\n2024-01-02,a,1,0,2\n")
    with pytest.raises(DataError, match=r"2 rows, expected at least task\.history \+ task\.horizon"):
        list(task(path, **LONG).read(path))
