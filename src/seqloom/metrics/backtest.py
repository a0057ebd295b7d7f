"""A rolling-origin backtest: forecasts from several origins, as they would have been made, beside what came."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Backtest:
    """The scores of all forecasts, of each step of the horizon, and of each origin."""

    scores: dict[str, Any]  # as an evaluation has them
    horizon: list[Row]  # of each step: its number, errors, those of the best baseline, and coverage
    origins: list[Row]  # of each forecast: its series if there are several, where it starts, its errors and coverage
    baseline: str  # name of the best one

    def to_json(self) -> dict[str, Any]:
        """All tables as JSON values."""
        kept = {name: value for name, value in self.scores.items() if name != "per_step"}
        return {"scores": kept, "horizon": list(self.horizon), "origins": list(self.origins), "baseline": self.baseline}


def spread_rows(count: int, most: int) -> list[int]:
    """At most ``most`` of ``count`` rows: the first ones, then at growing distances, and the last."""
    if count <= most:
        return list(range(count))
    growth = count ** (1 / (most - 1))
    rows: list[int] = []
    for place in range(most):
        rows.append(max(round(growth**place) - 1, rows[-1] + 1 if rows else 0))
    return sorted({min(row, count - 1) for row in rows})


def columns_of(rows: Sequence[Row]) -> list[str]:
    """The names of the values in rows, in their order."""
    return list(dict.fromkeys(name for row in rows for name in row))
