"""The learning rate range test."""

import json
import math
from pathlib import Path

import pytest
import torch
from tests.contracts.tiny import CASES, build
from typer.testing import CliRunner

from seqloom.cli.main import app
from seqloom.learning_rate_finder import (
    START,
    LearningRateTest,
    LossAtStart,
    describe_problem,
    find_learning_rate,
    print_test,
    smooth,
    suggest,
)


def test_the_loss_falls_and_rises_again(tmp_path: Path) -> None:
    config = build(CASES["classify"], tmp_path, learning_rate=0.5)
    state = torch.get_rng_state()
    test = find_learning_rate(config)
    assert torch.equal(state, torch.get_rng_state())
    assert test.learning_rates[0] == pytest.approx(1e-6)
    assert all(later > sooner for sooner, later in zip(test.learning_rates, test.learning_rates[1:], strict=False))
    assert test.lowest is not None
    assert test.suggestion is not None
    assert test.suggestion == pytest.approx(test.lowest / 10, rel=0.5)
    assert 1e-4 < test.suggestion < 1
    assert test.configured == 0.5
    assert find_learning_rate(config) == test


def test_smoothing_and_suggestion() -> None:
    assert smooth([2.0, 2.0, 2.0]) == pytest.approx([2, 2, 2])
    assert smooth([0.0, 1.0]) == pytest.approx([0, 0.1 / 0.19])
    start = LossAtStart(2.0, 0.1)
    assert suggest([1e-3, 1e-2, 1e-1], [2.0, 1.0, 5.0], start) == 1e-2
    assert suggest([1e-4, 1e-3, 1e-2, 1e-1], [2.0, 1.0, 1.5, 0.5], start) == 1e-3  # the first minimum
    assert suggest([1e-3, 1e-2], [2.0, 1.99], start) is None
    assert suggest([], [], LossAtStart.of([])) is None


@pytest.mark.parametrize(
    ("noise", "lowest", "problem"),
    [
        (0.001, 0.98, "too flat: the loss falls from 1 by 0.02"),
        (0.3, 0.7, "too noisy: the loss falls by 0.3"),
        (0.01, 0.7, ""),
    ],
)
def test_a_curve_without_a_clear_fall_gives_no_suggestion(noise: float, lowest: float, problem: str) -> None:
    rates = [1e-6 * 10 ** (number / 10) for number in range(60)]
    raw = [1 + noise * (-1) ** number for number in range(START)] + [1.0] * 20 + [lowest] * 5 + [3.0] * 15
    start = LossAtStart.of(raw)
    losses = [1.0, 0.1, *raw[2:]]  # a dip at the start is luck: nothing is learned there
    assert start == pytest.approx((1.0, noise))
    assert suggest(rates, losses, start) == (None if problem else rates[START + 20])
    assert not problem or problem in describe_problem(losses, start)


def test_models_without_a_gradient_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="is not trained by gradient descent"):
        find_learning_rate(build(CASES["language_model, ngram"], tmp_path))


def test_the_curve_is_printed_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rates = [1e-6 * 10 ** (number / 20) for number in range(100)]
    losses = [1 + abs(math.log10(rate) + 3) for rate in rates]
    print_test(LearningRateTest(rates, losses, 1e-4, 1e-3, 0.01), tmp_path / "curve.svg")
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80 + len(str(tmp_path))
    assert "train.learning_rate=0.0001" in out
    assert "learning rate" in (tmp_path / "curve.svg").read_text()
    print_test(LearningRateTest([1e-3], [1.0], None, None, 0.01, "the curve is too flat"))
    assert "No suggestion: the curve is too flat. Configured: 0.01." in capsys.readouterr().out


def test_the_command(tmp_path: Path) -> None:
    config = build(CASES["classify"], tmp_path)
    (tmp_path / "c.toml").write_text(config.text())
    result = CliRunner().invoke(app, ["check", str(tmp_path / "c.toml"), "--learning-rate", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["suggestion"] > 0
