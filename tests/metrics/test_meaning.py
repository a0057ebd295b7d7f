"""What scores mean."""

import math

import pytest

from seqloom.metrics.meaning import is_perfect, meaning, percent


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0, "0.0 %"), (0.8385, "83.9 %"), (1, "100.0 %"), (0.99999, "more than 99.9 %"), (1e-6, "less than 0.1 %")],
)
def test_percentages_are_not_rounded_to_0_or_100(fraction: float, text: str) -> None:
    assert percent(fraction) == text


def test_scores_have_a_sentence() -> None:
    assert meaning("accuracy", 0.5) == "50.0 % of the labels are right"
    assert meaning("perplexity", 123.456) == "as uncertain as a choice among 123 equally likely tokens"
    assert meaning("wer", 0.0512) == "5.12 errors per 100 words"
    assert meaning("unheard_of", 1.0) == ""
    assert meaning("nll", 1.0, {"nll": 1.0, "points": 3}) == (
        "negative log-likelihood of a point in nats; lower is better"
    )
    assert meaning("nll", 1.0, {"nll": 1.0, "frames": 3}).startswith("negative log-likelihood of a frame in nats")
    assert meaning("perplexity", math.inf) == "not a finite number"


@pytest.mark.parametrize(
    ("name", "value", "higher", "perfect"),
    [
        ("accuracy", 1.0, True, True),
        ("accuracy", 0.999, True, False),
        ("bleu", 1.0, True, False),
        ("bleu_lower", 100.0, True, True),
        ("cer", 0.0, False, True),
        ("mse_scaled", 0.1, False, False),
        ("perplexity", 1.0, False, True),
        ("nll", -5.0, False, False),
    ],
)
def test_a_perfect_score_depends_on_the_metric(name: str, value: float, *, higher: bool, perfect: bool) -> None:
    assert is_perfect(name, value, higher_is_better=higher) is perfect
