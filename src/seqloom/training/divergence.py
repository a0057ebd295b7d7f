"""The error of a training that has diverged."""

from typing import Any


class Diverged(RuntimeError):
    """Training has diverged: the gradient, the weights or the scores are not finite."""

    def __init__(self, reason: str, batch: Any = ()) -> None:
        super().__init__(f"training diverged: {reason}; lower train.learning_rate")
        self.batch = batch  # that was trained on last; empty: it is not the reason
        self.advice = ""  # how to find out more, if there is a run

    def __str__(self) -> str:
        return "; ".join(filter(None, (super().__str__(), self.advice)))
