"""Input of a cell's step where one part is known for all steps and the context is computed at each step."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from seqloom.cells.cell import Cell
from seqloom.cells.wrapper import Wrapper
from seqloom.layers.recurrent.active_rows import ActiveRows


class StepInput:
    """``project`` of [x; context]: the part that depends on x only, and the noise, is computed once for all steps."""

    def __init__(
        self,
        cell: Cell,
        x: Tensor,  # (B, T, D)
        active: ActiveRows,
    ) -> None:
        wrappers = []
        while isinstance(cell, Wrapper):
            wrappers.append(cell)
            cell = cell.cell
        self.cell = cell
        parts = list(cell.input) if type(cell.input) is nn.Sequential else [cell.input]
        first, self.rest = parts[0], parts[1:]  # the matrix product, which can be split, and what follows it
        self.weight: Tensor | None = None  # (P, V), the columns that read the context
        known = active.flatten(x)
        if type(cell).project is Cell.project and type(first) is nn.Linear:
            input_weight, self.weight = first.weight.split([x.shape[2], first.in_features - x.shape[2]], dim=1)
            known = functional.linear(known, input_weight, first.bias)
        self.known = active.split(known)
        noise = x.transpose(0, 1)[..., :0].detach()
        for wrapper in reversed(wrappers):
            if wrapper.training:
                noise = torch.cat([noise, wrapper.sample_noise(noise)], dim=-1)
        self.noise = active.pack(noise.transpose(0, 1)) if noise.shape[2] else None

    def __call__(
        self,
        time: int,
        context: Tensor,  # (n, V)
    ) -> Tensor:  # (n, P)
        """Return the projected input of one step."""
        known = self.known[time]
        if self.weight is None:
            projected = self.cell.project(torch.cat([known, context], dim=-1).unsqueeze(0)).squeeze(0)
        else:
            projected = torch.addmm(known, context, self.weight.t())
            for part in self.rest:
                projected = part(projected)
        return projected if self.noise is None else torch.cat([projected, self.noise[time]], dim=-1)
