import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from seqloom.metrics.rank_correlation import ranks, spearman


@pytest.mark.parametrize("seed", range(5))
def test_as_scipy_has_it(seed: int) -> None:
    random = np.random.default_rng(seed)
    first, second = random.integers(0, 8, 40), random.normal(size=40).round(1)
    np.testing.assert_allclose(ranks(first), rankdata(first))
    assert spearman(first, second) == pytest.approx(spearmanr(first, second).statistic, abs=1e-12)


def test_of_nothing_it_is_zero() -> None:
    assert spearman([], []) == spearman([1], [2]) == spearman([1, 1, 1], [1, 2, 3]) == 0
    with pytest.raises(ValueError, match="3 and 2 numbers"):
        spearman([1, 2, 3], [1, 2])
