"""After training, how readily a tagger predicts spans is adjusted to the development data."""

from collections.abc import Callable
from typing import NamedTuple

from seqloom.metrics.confidence import MetricSums, bootstrap, paired_difference

STEP, MOST_STEPS = 0.5, 8


class Shift(NamedTuple):
    """What is subtracted from the score of the label O, and F1 before and after."""

    size: float
    before: float
    after: float

    def __str__(self) -> str:
        verb = "lowered" if self.size > 0 else "raised"
        return (
            f"calibrated: the score of O is {verb} by {abs(self.size):g}, which changes span_f1 on the dev data from "
            f"{self.before:.4f} to {self.after:.4f}"
        )


def find_shift(evaluate: Callable[[float], MetricSums]) -> Shift | None:
    """The shift with the best F1, in steps of one half; None if it is not evidently better than no shift.

    Evidently better: the 95 % interval of the difference, by a paired bootstrap over sentences, is above 0.
    """
    unchanged = evaluate(0.0)
    size, best = 0.0, unchanged
    for direction in (STEP, -STEP):
        for number in range(1, MOST_STEPS + 1):
            changed = evaluate(direction * number)
            if changed.whole <= best.whole:
                break
            size, best = direction * number, changed
        if size:
            break
    if not size or paired_difference([bootstrap(unchanged)], [bootstrap(best)])[0] <= 0:
        return None
    return Shift(size, unchanged.whole, best.whole)
