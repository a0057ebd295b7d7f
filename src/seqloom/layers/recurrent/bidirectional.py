"""Bidirectional recurrent layer (Schuster & Paliwal 1997)."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqloom.cells.cell import first_parameter
from seqloom.kernels.fuse.scan_together import scan_together
from seqloom.kernels.runtime import threads
from seqloom.kernels.runtime.staleness import global_forward_hooks
from seqloom.layers.layer import Layer, check_input, untraced
from seqloom.layers.recurrent.recurrent import Recurrent


class Bidirectional(Layer):
    """Concatenates the outputs of a forward and a backward layer: (B, T, forward size + backward size).

    It needs the whole sequence at once: chunks with the state passed on do not equal the whole.
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
            directions = (forward.reverse, backward.reverse)
            raise ValueError(f"reverse of the forward and the backward layer is {directions}, expected (False, True)")
        if forward.input_size != backward.input_size:
            raise ValueError(
                f"backward has input_size {backward.input_size}, expected {forward.input_size} like the forward layer"
            )
        self.forward_layer = forward
        self.backward_layer = backward

    def forward(self, x: Tensor, mask: Tensor | None = None, state: Any = None) -> tuple[Tensor, State]:
        if state is not None and not (isinstance(state, tuple) and len(state) == 2):
            raise TypeError(
                f"state is {type(state).__name__}, expected Bidirectional.State with fields {self.State._fields}"
            )
        forward_state, backward_state = (None, None) if state is None else state
        together = self._scan_together(x, mask, forward_state, backward_state)
        if together is not None:
            return together
        if x.requires_grad:  # the gradients of both directions are summed before those of other uses of x, as above
            x = x.view_as(x)
        forward_output, forward_state = self.forward_layer(x, mask, forward_state)
        backward_output, backward_state = self.backward_layer(x, mask, backward_state)
        return torch.cat([forward_output, backward_output], dim=-1), self.State(forward_state, backward_state)

    @untraced
    def _scan_together(
        self, x: Tensor, mask: Tensor | None, forward_state: Any, backward_state: Any
    ) -> tuple[Tensor, State] | None:
        """Both directions at once, where both have kernels that compute gradients; None if not."""
        if any(global_forward_hooks()) or 2 * x.shape[0] < threads.count():  # few rows are shared by teams of threads
            return None
        check_input(x, mask, size=self.input_size, like=first_parameter(self.forward_layer.cell))
        layers = (self.forward_layer, forward_state), (self.backward_layer, backward_state)
        prepared = [layer.shared_scan(x, state) for layer, state in layers]
        scans = [scan for scan in prepared if scan is not None]
        if len(scans) < len(layers):
            return None
        lengths = None if mask is None else mask.sum(dim=1)
        out, final = scan_together([scan for scan, _ in scans], x.transpose(0, 1), lengths)
        states = [make_state(fields) for (_, make_state), fields in zip(scans, final, strict=True)]
        return out.transpose(0, 1), self.State(*states)
