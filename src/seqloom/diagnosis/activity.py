"""What gates and units of recurrent layers do on real sequences: saturated, stuck, dead and redundant ones."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from seqloom.diagnosis.recording import CellCall
from seqloom.diagnosis.thresholds import ALWAYS, DEAD, SAME, SATURATED, SATURATED_TANH

UNGATED = "output"
"""What takes the place of the gates of a cell that has none: its output."""


@dataclass(frozen=True)
class GateUse:
    """The values of a gate, or of another bounded activation, over all real steps and all units."""

    layer: str
    direction: str
    gate: str
    effect: str  # what it does where it is open, such as "keeps"; empty: unknown
    mean: float
    low: float  # share of the values that are saturated at the lower bound
    high: float  # share of the values that are saturated at the upper bound
    stuck_low: float  # share of the units that are saturated at the lower bound at nearly all steps
    stuck_high: float
    bounds: tuple[int, int]  # of the values: (0, 1) or (-1, 1)
    units: list[float]  # mean of each unit, sorted

    @property
    def stuck(self) -> float:
        """Share of the units that are saturated on the same side at nearly all steps."""
        return self.stuck_low + self.stuck_high


@dataclass(frozen=True)
class UnitUse:
    """The outputs of a recurrent layer over all real steps."""

    layer: str
    direction: str
    units: int
    dead: int  # units whose value hardly differs from step to step
    redundant: int  # units that are nearly equal, up to scale and sign, to one before them
    effective_rank: float  # exp of the entropy of the normalised singular values (Roy & Vetterli 2007)
    steps: int
    spectrum: list[float]  # share of the variance along each principal axis, the largest first


def gate_use(call: CellCall, direction: str) -> list[GateUse]:
    """The gates of a layer; of a cell without gates, its output, if that is bounded."""
    gates = dict(zip(call.cell.gates, _stacked(call, gates=True), strict=True))
    if not gates:
        gates = {UNGATED: next(_stacked(call, gates=False))}
    uses = []
    for name, values in gates.items():
        if not values.numel() or float(values.abs().max()) > 1:
            continue
        is_gate = name in call.cell.effects or (bool(call.cell.gates) and float(values.min()) >= 0)
        low, high = (SATURATED, 1 - SATURATED) if is_gate else (-SATURATED_TANH, SATURATED_TANH)
        if not is_gate and float(values.min()) >= 0:  # no tanh: such as a rectifier that stays small
            continue
        below, above = values < low, values > high
        uses.append(
            GateUse(
                call.name,
                direction,
                name,
                call.cell.effects.get(name, ""),
                float(values.mean()),
                float(below.double().mean()),
                float(above.double().mean()),
                float((below.double().mean(dim=0) >= ALWAYS).double().mean()),
                float((above.double().mean(dim=0) >= ALWAYS).double().mean()),
                (0, 1) if is_gate else (-1, 1),
                [round(value, 4) for value in values.mean(dim=0).sort().values.tolist()],
            )
        )
    return uses


def unit_use(call: CellCall, direction: str) -> UnitUse | None:
    """The units of a layer; None if there are too few steps to say anything."""
    states = next(_stacked(call, gates=False)).double()
    steps, units = states.shape
    if steps < 2 or not bool(states.isfinite().all()):
        return None
    ranges = states.amax(dim=0) - states.amin(dim=0)
    dead = ranges <= DEAD * ranges.max().clamp(min=torch.finfo(torch.float32).tiny)
    centred = states - states.mean(dim=0)
    singular = torch.linalg.eigvalsh(centred.t() @ centred).clamp(min=0).flip(0).sqrt()
    shares = singular / singular.sum() if float(singular.sum()) else singular
    entropy = -(shares * shares.clamp(min=1e-300).log()).sum()
    variance = singular.square() / singular.square().sum() if float(singular.sum()) else singular
    alive = centred[:, ~dead]
    alive = alive / alive.norm(dim=0).clamp(min=1e-300)
    same = (alive.t() @ alive).abs().triu(1) >= SAME
    return UnitUse(
        call.name,
        direction,
        units,
        int(dead.sum()),
        int(same.any(dim=0).sum()),
        float(entropy.exp()) if float(singular.sum()) else 0.0,
        steps,
        [round(value, 6) for value in variance.tolist()],
    )


def _stacked(call: CellCall, *, gates: bool) -> Iterator[Tensor]:
    """Each gate, or each field of the state, at all real steps: (N, units)."""
    real = [(step, call.is_real(step)) for step in call.steps]
    values = [step.gates if gates else step.state for step in call.steps]
    for index in range(len(values[0]) if values else 0):
        chosen = [step_values[index][mask] for step_values, (_, mask) in zip(values, real, strict=True)]
        yield torch.cat(chosen).detach().flatten(1)
