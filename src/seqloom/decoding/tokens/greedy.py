"""Greedy search: the most probable token at each step."""

from typing import ClassVar, Literal

from seqloom.decoding.tokens.search_record import NodeStatus
from seqloom.decoding.tokens.stepwise import Choose, StepwiseSearch


class Greedy(StepwiseSearch):
    """Chooses the most probable token at each step."""

    not_chosen: ClassVar[NodeStatus] = NodeStatus.OUTSIDE_BEAM

    name: Literal["greedy"] = "greedy"

    @property
    def takes_largest(self) -> bool:
        return True

    def chooser(self) -> Choose:
        return lambda _, largest, __: largest
