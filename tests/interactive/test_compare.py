"""Comparisons of variants on data in memory."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import seqloom
from seqloom.run import Run

FRAME = pd.DataFrame({"id": range(20), "review": [f"{'good' if n % 2 else 'bad'} film {n}" for n in range(20)]})
FRAME["stars"] = [5 if number % 2 else 1 for number in range(20)]
SMALL: dict[str, Any] = {"epochs": 1, "embedding_size": 4, "encoder": {"hidden_size": 4}, "dev_fraction": 0.3}


def test_variants_are_compared_on_a_frame(tmp_path: Path) -> None:
    options = {**SMALL, "task": "classify", "text": "review", "label": "stars", "output": tmp_path / "out"}
    lines: list[str] = []
    variants: list[Any] = ["base", {"task.encoder.cell": "gru"}]
    result = seqloom.compare(data=FRAME, variants=variants, report=lines.append, match_parameters=True, **options)
    assert [row["variant"] for row in result] == ["base", "task.encoder.cell=gru"]
    assert lines[0] == "data: text from column 2 'review', label from column 3 'stars'; not read: column 'id'"
    assert 'text_column = "review"' in Run.open(tmp_path / "out" / "base" / "seed-1").config
    lines.clear()
    again = seqloom.compare(data=FRAME, variants=variants, report=lines.append, match_parameters=True, **options)
    assert [line for line in lines if line.startswith("run ")] == []  # nothing is trained twice
    assert again.rows == result.rows
    with pytest.raises(ValueError, match="has changed since"):
        seqloom.compare(data=FRAME[:18], variants=variants, report=lines.append, match_parameters=True, **options)


def test_mistakes_are_explained() -> None:
    with pytest.raises(ValueError, match="nothing to compare: give the path of a configuration, or task and data"):
        seqloom.compare(variants=["base"])
    with pytest.raises(ValueError, match=r"other\.toml is a file; with data in memory, expected changes or layers"):
        seqloom.compare(task="classify", data=FRAME, variants=["base", "other.toml"], text="review", label="stars")
