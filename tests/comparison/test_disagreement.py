"""Two models on the same examples: intervals and disagreements against plain counts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom import tasks
from seqloom.comparison.disagreement import compare_predictions
from seqloom.data.readers.sentences import Sentence
from seqloom.data.readers.text_files import Location
from seqloom.tasks.targets.tags import TagPrediction


def task(**changes: Any) -> Any:
    known = [*sentences(1), Sentence(Location("train.conll", 9), ("word0",), ("B",))]
    return tasks.find("tag")(name="tag", train="train.conll", **changes).fit(known)


def sentences(count: int, length: int = 4) -> list[Sentence]:
    words = tuple(f"word{place}" for place in range(length))
    return [Sentence(Location("dev.conll", 1 + row), words, ("A",) * length) for row in range(count)]


def predictions(wrong: list[int], length: int = 4) -> list[TagPrediction]:
    """Of each sentence, the first labels are wrong."""
    return [TagPrediction([], ["B"] * errors + ["A"] * (length - errors), []) for errors in wrong]


def test_the_difference_and_its_interval_are_those_of_a_paired_bootstrap() -> None:
    random = np.random.default_rng(0)
    wrong = random.integers(0, 3, size=(2, 60))
    wrong[1] = np.maximum(wrong[1] - 1, 0)
    examples = sentences(60)
    result = compare_predictions((task(), task()), (predictions(list(wrong[0])), predictions(list(wrong[1]))), examples)
    scores = 1 - wrong.sum(axis=1) / 240
    assert result.scores == pytest.approx(tuple(scores))
    assert result.difference == pytest.approx(scores[1] - scores[0])
    # Independent draws: the ends of the interval agree within the error of 1,000 resamples.
    draws = np.random.default_rng(9).integers(60, size=(4000, 60))
    gaps = (wrong[0] - wrong[1])[draws].sum(axis=1) / 240
    assert result.interval == pytest.approx(tuple(np.quantile(gaps, [0.025, 0.975])), abs=0.01)
    assert result.better == 1
    assert result.disagreements == int((wrong[0] != wrong[1]).sum())


def test_the_largest_differences_of_either_side_come_first() -> None:
    wrong = [0, 4, 1, 2, 0, 3], [4, 0, 1, 0, 0, 2]
    result = compare_predictions((task(), task()), (predictions(wrong[0]), predictions(wrong[1])), sentences(6))
    assert [each.example for each in result.shown] == [0, 1, 3, 5]
    first = result.shown[0]
    assert (first.input, first.target) == ("word0\tword1\tword2\tword3", "A\tA\tA\tA")
    assert first.answers == ("A\tA\tA\tA", "B\tB\tB\tB")
    assert first.scores == (1.0, 0.0)
    assert first.place == "dev.conll:1"
    assert result.interval is None  # too few examples
    assert result.better is None
    few = compare_predictions((task(), task()), (predictions(wrong[0]), predictions(wrong[1])), sentences(6), most=3)
    assert [each.example for each in few.shown] == [0, 1]  # one in favour of each model


def test_equal_models_disagree_nowhere() -> None:
    same = predictions([1] * 20)
    result = compare_predictions((task(), task()), (same, same), sentences(20))
    assert (result.disagreements, result.shown, result.better) == (0, [], None)
    assert result.interval == (0.0, 0.0)


def test_other_tasks_are_refused(tmp_path: Path) -> None:
    other = tasks.find("classify")(name="classify", train=str(tmp_path / "x"))
    with pytest.raises(ValueError, match=r"tag .* and classify .* cannot be compared"):
        compare_predictions((task(), other), ([], []), [])
