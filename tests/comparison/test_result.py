"""The result of a comparison, as people see it."""

from pathlib import Path
from typing import Any

import pytest

from seqloom.comparison.result import Comparison


def row(name: str, mean: float | None, **fields: Any) -> dict[str, Any]:
    return {
        "variant": name,
        "seeds": [1],
        "folds": [],
        "errors": [],
        "metric": "accuracy",
        "higher_is_better": True,
        "mean": mean,
        "std": None,
        "interval": None,
        "difference": None,
        "p_value": None,
        "parameters": 12,
        "train_items_per_second": None,
        "predict_items_per_second": 3.0,
        "memory_mb": None,
        "minutes": 0.5,
        **fields,
    }


def test_rows_by_number_and_by_name() -> None:
    result = Comparison([row("base", 0.5), row("<b>", 0.75)], Path("out"))
    assert (len(result), result[0]["variant"], result["<b>"]["mean"]) == (2, "base", 0.75)
    assert result.best is result[1]
    assert Comparison([row("base", 0.5, higher_is_better=False), row("b", 0.75)], Path("out")).best["variant"] == "base"
    with pytest.raises(KeyError, match="'gru' is not a variant; variants: base, <b>"):
        _ = result["gru"]


def test_it_prints_as_a_table() -> None:
    tested = row("<b>", 0.75, difference=0.25, interval=[0.1, 0.4], p_value=0.012, better=True, adapted="is narrower")
    result = Comparison([row("base", 0.5), {**tested, "folds": ["1/3"]}], Path("out"))
    first, second, third = str(result).splitlines()[:3]
    assert first.split()[:3] == ["variant", "accuracy", "difference"]
    assert second.startswith("base     0.5 ")
    assert "+0.25 [+0.1, +0.4] p=0.012 better" in third
    assert str(result).endswith("<b>: is narrower")
    assert "corrected paired t-test" in repr(result)
    html = result._repr_html_()
    assert ">&lt;b&gt;</td>" in html
    assert "<b>" not in html
