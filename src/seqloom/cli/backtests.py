"""Print a rolling-origin backtest."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seqloom import terminal
from seqloom.formats import format_value
from seqloom.metrics.backtest import Row, columns_of, spread_rows
from seqloom.tasks.forecast.verdict import compare_with_baselines

if TYPE_CHECKING:
    from seqloom.model import Model

MAX_ROWS = 12  # of a table


def print_backtest(
    model: "Model",
    file: str,
    *,
    step: int,
    origins: int,
    picture: Path,
    overfitting: str = "",  # why longer training does not help; empty: it may
    as_json: bool = False,
) -> None:
    """Backtest a forecaster, and print its scores by horizon and origin; the forecasts are drawn."""
    drawn: Path | None = picture
    try:
        result = model.backtest(file, step=step, origins=origins, picture=picture)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        drawn, result = None, model.backtest(file, step=step, origins=origins)
    terminal.print_data_warnings(file, result.scores.get("warnings", []))
    if as_json:
        terminal.print_json(result.to_json())
        return
    count = len(result.origins)
    terminal.print_wrapped(
        f"{count:,} forecasts of {len(result.horizon):,} steps. The model was not trained again at the origins. "
        f"best_baseline is {result.baseline}."
    )
    _print_table("By step of the horizon", "step", result.horizon, spread_rows(len(result.horizon), MAX_ROWS))
    rows = [_renamed(row) for row in result.origins]
    if "series" in rows[0]:  # the latest ones would be those of the last series
        worst = sorted(range(count), key=lambda place: -float(rows[place]["mse_scaled"]))[:MAX_ROWS]
        _print_table("By origin, the largest errors first", "first step", rows, worst)
    else:
        _print_table("By origin", "first step", rows, list(range(max(count - MAX_ROWS, 0), count)))
    terminal.print_lines("")
    scores = {name: value for name, value in result.scores.items() if name != "per_target"}
    verdict = compare_with_baselines(scores, scores["baselines"], overfitting=overfitting)
    terminal.print_results(scores, {}, source="value", sentences=[verdict])
    if drawn is not None:
        terminal.print_lines("", f"picture  {drawn}")
    else:
        terminal.print_note("no picture: matplotlib is not installed; run pip install 'seqloom[plots]'")


def _renamed(row: Row) -> Row:
    return {"first step" if name == "first" else name: value for name, value in row.items()}


def _print_table(title: str, key: str, rows: Sequence[Row], shown: Sequence[int]) -> None:
    more = f" ({len(shown)} of {len(rows):,}; --json shows all)" if len(shown) < len(rows) else ""
    terminal.print_lines("", f"{title}{more}:")
    columns = columns_of(rows)
    terminal.table(
        tuple(columns),
        [
            tuple(str(rows[place][name]) if name == key else format_value(rows[place][name]) for name in columns)
            for place in shown
        ],
    )
