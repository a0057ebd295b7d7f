"""What is corrected after training: the factor of least squares, and quantiles with their share of the truth below."""

import numpy as np
import pytest
from scipy import stats

from seqloom.tasks.forecast.calibration import describe_shrinkage, estimate_shifts, estimate_shrinkage


def parts(needed: float, noise: float, *, count: int = 200, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Predicted changes, and the true ones, which are a multiple of them with noise."""
    random = np.random.default_rng(seed)
    changes = [random.normal(size=(1, 3, 2)) for _ in range(count)]
    return changes, [needed * change + noise * random.normal(size=change.shape) for change in changes]


def test_the_factor_is_the_lower_limit_of_that_of_least_squares() -> None:
    changes, needed = parts(0.6, 0.5)
    found = estimate_shrinkage(changes, needed, overlap=1)
    assert found is not None
    flat = [np.concatenate(side).ravel() for side in (changes, needed)]
    assert found.best == pytest.approx((flat[0] @ flat[1]) / (flat[0] @ flat[0]))
    assert found.error == pytest.approx(0.5 / np.sqrt(flat[0] @ flat[0]), rel=0.2)  # of a regression with this noise
    assert found.factor == pytest.approx(found.best - 2 * found.error)
    assert "multiplied by 0.56: the best factor on the dev data is 0.59 ± 0.03" in describe_shrinkage(
        found, "last value"
    )


def test_the_error_is_larger_where_neighbouring_blocks_agree() -> None:
    random = np.random.default_rng(1)
    noise = random.normal(size=4000)
    for place in range(1, len(noise)):
        noise[place] += 0.5 * noise[place - 1]
    changes = [np.ones((1, 1, 1))] * len(noise)
    found = estimate_shrinkage(changes, [np.full((1, 1, 1), 1 + each) for each in noise], overlap=1)
    assert found is not None
    # The mean of n values of an autoregression has the standard error σ / (1 − φ) / √n: twice that of independent ones.
    assert found.error == pytest.approx(1 / (1 - 0.5) / np.sqrt(len(noise)), rel=0.15)


def test_a_useless_model_returns_to_its_base_and_a_good_one_is_kept() -> None:
    useless = [estimate_shrinkage(*parts(0.0, 5.0, seed=seed), overlap=1) for seed in range(40)]
    kept = [each for each in useless if each is not None and each.factor > 0]
    assert len(kept) <= 4  # two standard errors are exceeded by chance in one of 40
    good = estimate_shrinkage(*parts(1.3, 0.1), overlap=1)
    assert good is not None
    assert good.factor == 1.0  # never larger than what the model says
    none = estimate_shrinkage(*parts(-0.5, 0.1), overlap=1)
    assert none is not None
    assert none.factor == 0
    assert (
        "the network is not used, since the dev data do not show that it is better than the last value"
        in describe_shrinkage(none, "last value")
    )


def test_overlapping_examples_count_as_one() -> None:
    changes, needed = parts(0.2, 2.0, count=20)
    repeated = [[each for each in side for _ in range(30)] for side in (changes, needed)]
    alone = estimate_shrinkage(changes, needed, overlap=1)
    together = estimate_shrinkage(*repeated, overlap=30)
    assert alone is not None
    assert together is not None
    assert together.error == pytest.approx(alone.error)
    assert estimate_shrinkage(*parts(1.0, 0.1, count=20), overlap=10) is None  # two blocks say too little


def test_moved_quantiles_have_their_share_of_the_truth_below() -> None:
    random = np.random.default_rng(0)
    levels = (0.1, 0.5, 0.9)
    widths = random.uniform(0.5, 2, size=(500, 4, 2))
    truth = 3 + widths * random.normal(size=widths.shape)  # the model is biased, and too sure
    quantiles = (widths[..., None] * stats.norm.ppf(levels) * 0.5).astype(np.float32)
    shifts = estimate_shifts(truth, quantiles, levels, blocks=500)
    whole = shifts * 600 / 500  # a hundred examples are taken to agree with the network
    moved = quantiles + whole * (quantiles[..., -1:] - quantiles[..., :1])
    for place, level in enumerate(levels):
        assert (truth <= moved[..., place]).mean() == pytest.approx(level, abs=1 / truth.size + 1e-6)
    np.testing.assert_array_equal(estimate_shifts(truth, quantiles * 0, levels, blocks=500), np.zeros(3))
