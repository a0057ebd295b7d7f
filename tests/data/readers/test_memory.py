"""Values in memory as sources."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from seqloom.data.readers.memory import as_source, digest, splits, with_targets
from seqloom.data.readers.text_files import DataError, Location


@dataclass(frozen=True)
class Example:
    location: Location
    values: Any
    label: str | None


@pytest.mark.parametrize(
    "data",
    [
        ["a", "b"],
        ("a", "b"),
        iter("ab"),
        np.array(["a", "b"]),
        np.array(["a", "b"], dtype=object),
        pd.Series(["a", "b"], index=[7, 8]),
        pl.Series(["a", "b"]),
        pa.array(["a", "b"]),
        pa.chunked_array([["a"], ["b"]]),
    ],
    ids=lambda data: type(data).__name__,
)
def test_sequences_become_lists(data: Any) -> None:
    assert as_source(data) == ["a", "b"]


def test_numbers_stay_arrays_and_tables_stay_tables() -> None:
    array = np.zeros((2, 3))
    assert as_source(array) is array
    assert np.array_equal(as_source(torch.ones(2, 3)), np.ones((2, 3)))
    frame = pd.DataFrame({"a": [1]})
    assert as_source(frame) is frame


@pytest.mark.parametrize("data", ["text", b"text", None, 3, {"a", "b"}, np.array(3.0), object()])
def test_other_values_are_refused(data: Any) -> None:
    with pytest.raises(DataError, match="expected a path, a data frame, a dict of columns"):
        as_source(data)


def test_targets_join_their_inputs() -> None:
    assert with_targets(["a", "b"], pd.Series([1, 2]), noun="label") == [("a", 1), ("b", 2)]
    with pytest.raises(DataError, match="expected a label for each of 2 inputs, found 1"):
        with_targets(["a", "b"], [1], noun="label")
    with pytest.raises(DataError, match="label: expected the name of a column of the data"):
        with_targets({"a": [1]}, [1], noun="label")


def test_a_dict_of_tables_holds_training_and_development_data() -> None:
    train, dev = pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2]})
    assert splits({"train": train, "validation": dev})[1] is dev
    assert splits({"train": train})[1] is None
    columns = {"train": ["a"], "dev": ["b"]}
    assert splits(columns)[0] is columns


def test_the_digest_changes_with_the_content() -> None:
    def examples(value: float, label: str = "a", line: int = 1) -> list[Example]:
        return [Example(Location("input", line), np.array([1.0, value]), label)]

    digests = [digest(examples(1)), digest(examples(2)), digest(examples(1, "b")), digest(examples(1, line=2))]
    assert len(set(digests)) == 4
    assert digest(examples(1)) == digests[0]
    shared = np.zeros(3)
    assert digest([Example(Location("input", 1), shared, "a")] * 2) != digest(
        [Example(Location("input", 1), shared, "a")]
    )
