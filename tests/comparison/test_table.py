"""The rows of a comparison, checked against NumPy."""

import math
from typing import Any

import numpy as np
import pytest

from seqloom.comparison.table import footnotes, format_table, markdown, summarize
from seqloom.metrics.confidence import bootstrap, ratio_of_sums


def trial(seed: int, right: Any, **fields: Any) -> dict[str, Any]:
    sums = ratio_of_sums(right, np.ones(len(right)))
    return {
        "seed": seed,
        "metric": "accuracy",
        "higher_is_better": True,
        "metrics": {"accuracy": sums.whole, "loss": 1.0 + seed, "per_label": {}},
        "parameters": 1234567,
        "train_items_per_second": 1000.0 * seed,
        "predict_items_per_second": 5000.0,
        "memory_mb": 100.0 + seed,
        "minutes": 0.5,
        "is_counting_model": False,
        "dev_examples": len(right),
        "bootstrap_rows": len(right),
        "dev_digest": "same examples",
        "bootstrap_samples": bootstrap(sums).tolist(),
        **fields,
    }


@pytest.fixture
def right() -> Any:
    return np.random.default_rng(1).random((4, 500)) < np.array([[0.6], [0.62], [0.7], [0.72]])


def test_means_spreads_and_paired_differences(right: Any) -> None:
    rows = summarize(
        {
            "first": [trial(1, right[0]), trial(2, right[1])],
            "second": [trial(1, right[2]), trial(2, right[3])],
            "third": [trial(1, right[1])],
        }
    )
    first, second, third = rows
    values = right[:4].mean(axis=1)
    assert first["mean"] == pytest.approx(values[:2].mean())
    assert first["std"] == pytest.approx(values[:2].std(ddof=1))
    assert second["metrics"]["loss"] == {"mean": 2.5, "std": pytest.approx(0.5**0.5)}
    assert (second["train_items_per_second"], second["memory_mb"]) == (1500, 102)
    assert second["difference"] == pytest.approx(values[2:].mean() - values[:2].mean())
    gain = right[2:4].mean(axis=0) - right[:2].mean(axis=0)  # of each example, the mean over the seeds
    generator = np.random.default_rng(7)
    draws = gain[generator.integers(0, 500, (20000, 500))].mean(axis=1)
    # 1,000 draws know the ends of an interval to about a twentieth of its width.
    assert second["interval"] == pytest.approx(np.quantile(draws, [0.025, 0.975]), abs=0.01)
    assert (first["interval"], second["better"], third["better"], third["std"]) == (None, True, None, None)
    columns, lines = format_table(rows)
    assert columns[:3] == ["variant", "accuracy", "difference"]
    assert " ± " in lines[0][1]
    assert " ± " not in lines[2][1]
    assert lines[1][2].endswith("] better")
    assert lines[2][2].endswith("]")
    assert lines[0][3:] == ["1,234,567", "1,500", "5,000", "102", "0.50"]
    assert footnotes(rows) == []


def test_a_training_of_less_than_an_epoch_is_noted(right: Any) -> None:
    rows = summarize(
        {"long": [trial(1, right[0], epochs=1.0, updates=40)], "short": [trial(1, right[1], epochs=0.4, updates=15)]}
    )
    assert footnotes(rows) == ["short: trained for less than one epoch (15 updates), so that its score says little"]


def test_lower_may_be_better(right: Any) -> None:
    low = {"higher_is_better": False}
    rows = summarize({"first": [trial(1, right[0], **low)], "second": [trial(1, right[2], **low)]})
    assert rows[1]["better"] is False


def test_differences_that_cannot_be_computed_are_explained(right: Any) -> None:
    rows = summarize(
        {
            "first": [trial(1, right[0]), {"seed": 2, "error": "no | memory"}],
            "none": [{"seed": 1, "error": "no such file"}],
            "other": [trial(1, right[1], dev_digest="other examples")],
            "whole": [trial(1, right[1], bootstrap_samples=[], bootstrap_rows=0)],
            "strange": [trial(1, right[1], metric="loss")],
            "cut": [trial(1, right[1], bootstrap_rows=499)],
            "no dev": [trial(1, right[1], metrics={}, dev_examples=0, bootstrap_samples=[])],
        }
    )
    assert [row.get("interval") for row in rows] == [None] * 7
    assert rows[-1]["mean"] is None
    assert footnotes(rows) == [
        "first, seed 2: no | memory",
        "none, seed 1: no such file",
        "other: no difference: it has other development examples",
        "whole: no difference: accuracy is not computed from scores of single examples",
        "strange: no difference: its metric is loss, that of the first variant accuracy",
        "cut: no difference: it splits the development examples differently",
        "no dev: no difference: there are no development examples",
    ]
    assert format_table(rows)[1][1] == ["none", "failed", *[""] * 6]
    page = markdown("Title", rows, ["a fact"])
    assert page.startswith("# Title\n\n|variant|accuracy|")
    assert "\n|none|failed|" in page
    assert "\n- a fact\n" in page


def test_one_example_has_no_confidence_interval(right: Any) -> None:
    _, second = summarize({"first": [trial(1, right[0][:1])], "second": [trial(1, ~right[0][:1])]})
    assert (second["interval"], second["better"]) == (None, None)
    assert second["note"] == "no difference: a confidence interval needs more than one development example"


@pytest.mark.parametrize("strange", [math.inf, -math.inf, math.nan])
def test_infinite_metrics_have_a_mean_and_no_standard_deviation(strange: float, right: Any) -> None:
    odd = [trial(1, right[0], metrics={"accuracy": 0.5, "loss": strange}), trial(2, right[1])]
    first, second = summarize({"first": odd, "second": odd})
    for row in (first, second):
        assert row["metrics"]["loss"] == {"mean": pytest.approx(strange, nan_ok=True), "std": None}
    assert second["interval"] == [0, 0]
    both = {"accuracy": strange}, {"accuracy": -strange}
    odd = [trial(seed, right[0], metrics=metrics) for seed, metrics in enumerate(both)]
    first, second = summarize({"first": odd, "second": odd})
    assert (math.isnan(first["mean"]), first["std"], second["interval"]) == (True, None, None)
    assert second["note"] == "no difference: accuracy is not always finite"
    sampled = [trial(1, right[0], bootstrap_samples=[0.5, strange])]
    assert summarize({"first": sampled, "second": sampled})[1]["note"] == second["note"]
    assert format_table([first])[1][0][1] == "nan"


def test_if_the_first_variant_fails_the_others_still_have_scores(right: Any) -> None:
    first, second = summarize({"first": [{"seed": 1, "error": "no"}], "second": [trial(1, right[0])]})
    assert "mean" not in first
    assert (second["mean"], second["note"]) == (right[0].mean(), "no difference: the first variant failed")


def test_held_out_examples_that_change_with_the_seed_are_compared_seed_by_seed(right: Any) -> None:
    several = {
        name: [trial(seed, right[row + seed - 1], dev_digest=str(seed)) for seed in seeds]
        for name, row, seeds in (("first", 0, (1, 2)), ("second", 2, (1, 2)), ("third", 2, (1,)))
    }
    _, second, third = summarize(several)
    means = right[:4].mean(axis=1)
    assert second["difference"] == pytest.approx(means[2:].mean() - means[:2].mean())
    assert third["difference"] == pytest.approx(means[2] - means[0])
