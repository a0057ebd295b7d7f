"""How well numbers put things into the order in which people put them."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def ranks(values: ArrayLike) -> NDArray[np.float64]:  # (N,) → (N,)
    """From 1 on; those that are equal share the mean of their ranks."""
    _, places, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    found: NDArray[np.float64] = (ends - (counts - 1) / 2)[places]
    return found


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """The correlation of ranks (Spearman 1904); 0 where all of one side are equal, or there are less than two."""
    left, right = ranks(first), ranks(second)
    if left.shape != right.shape:
        raise ValueError(f"there are {len(left)} and {len(right)} numbers, wanted as many")
    left, right = left - left.mean() if len(left) else left, right - right.mean() if len(right) else right
    spread = float(np.sqrt((left**2).sum() * (right**2).sum()))
    return float((left * right).sum()) / spread if spread else 0.0
