"""Two recurrent layers over one sequence, one from each end (Schuster & Paliwal 1997)."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqloom.layers.layer import Layer
from seqloom.layers.recurrent.recurrent import Recurrent


class Bidirectional(Layer):
    """The outputs of a forward and a backward layer side by side: (B, T, forward's size + backward's size).

    It needs the sequence whole: handing its state on to a later piece does not make the pieces equal the whole.
    """

    class State(NamedTuple):
        forward: Any
        backward: Any

    def __init__(
        self,
        forward: Recurrent,
        backward: Recurrent,  # with reverse=True
    ) -> None:
        super().__init__(forward.input_size, forward.output_size + backward.output_size)
        if forward.reverse or not backward.reverse:
            found = (forward.reverse, backward.reverse)
            raise ValueError(f"reverse of the forward and the backward layer is {found}, expected (False, True)")
        if forward.input_size != backward.input_size:
            raise ValueError(
                f"backward has input_size {backward.input_size}, expected {forward.input_size} as the forward layer"
            )
        # Not `forward`: that name is nn.Module's.
        self.ahead = forward
        self.back = backward

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, State]:
        if state is not None and not (isinstance(state, tuple) and len(state) == 2):
            raise TypeError(
                f"state is {type(state).__name__}, expected Bidirectional.State with fields {self.State._fields}"
            )
        ahead, back = (None, None) if state is None else state
        left, ahead = self.ahead(x, mask, ahead)
        right, back = self.back(x, mask, back)
        return torch.cat([left, right], dim=-1), self.State(ahead, back)
