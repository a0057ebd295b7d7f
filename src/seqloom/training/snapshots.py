"""All that a training needs to go on bit for bit: weights, optimiser, random state, position, what is carried on."""

from typing import Any, NamedTuple, Self

import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.optim import Optimizer

from seqloom.checkpoint import RunError, Snapshot
from seqloom.training.distributed import Team

EMPTY = "empty"
"""The name of what stands for a state without tensors: that of a layer without memory, beside one with."""


class Position(NamedTuple):
    """How far the training is; plain numbers."""

    epoch: int = 0  # the one under way
    batch: int = 0  # batches of it that are done
    update: int = 0
    seen: int = 0  # items so far
    scores: tuple[float, ...] = ()  # of all evaluations
    skipped: int = 0  # updates whose gradient was not finite
    skipped_in_a_row: int = 0
    summed: float = 0.0  # loss since the last entry of the log
    items: float = 0.0
    clipped: int = 0
    counted: int = 0  # updates since the last entry of the log
    pending: bool = False  # an evaluation comes next
    ending: str = ""  # why the training is over after that
    finished: str = ""  # why it is over now

    def after(self, summed: float, items: float, *, finite: bool, clipped: bool, final: bool) -> Self:
        """One update later; ``final``: it was the last one of its epoch."""
        return self._replace(
            epoch=self.epoch + final,
            batch=0 if final else self.batch + 1,
            update=self.update + 1,
            seen=self.seen + int(items),
            skipped=self.skipped + (not finite),
            skipped_in_a_row=0 if finite else self.skipped_in_a_row + 1,
            summed=self.summed + (summed if finite else 0.0),
            items=self.items + (items if finite else 0.0),
            clipped=self.clipped + clipped,
            counted=self.counted + 1,
        )

    def waited(self) -> int:
        """Evaluations since the best one."""
        return len(self.scores) - 1 - max(range(len(self.scores)), key=self.scores.__getitem__) if self.scores else 0


class Past(NamedTuple):
    """What earlier updates hand on besides the weights."""

    carried: tuple[Any, ...] = ()  # the model's state after each part of the last batch
    weights: tuple[dict[str, Tensor], ...] = ()  # at the last evaluations, for their mean


def capture(model: nn.Module, optimizer: Optimizer, position: Position, past: Past, team: Team) -> Snapshot:
    """A copy of everything; each process of a team has to call it."""
    own: dict[str, Tensor] = {"random": torch.get_rng_state()}
    for slot, state in enumerate(past.carried):
        own.update(flatten(state, f"carried.{slot}"))
    own = {name: tensor.contiguous() for name, tensor in own.items()}
    shared: dict[str, Tensor] = {}
    for index, weights in enumerate(past.weights):
        shared.update({f"weights.{index}.{name}": tensor for name, tensor in weights.items()})
    for index, values in optimizer.state_dict()["state"].items():
        shared.update({f"optimizer.{index}.{key}": value for key, value in values.items() if value is not None})
    for rank, data in enumerate(team.gather(save(own))):
        shared.update({f"rank.{rank}.{name}": tensor for name, tensor in load(data).items()})
    return Snapshot(
        copy(model),
        {name: tensor.detach().clone() for name, tensor in shared.items()},
        {"position": position._asdict(), "ranks": team.size},
    )


def restore(snapshot: Snapshot, model: nn.Module, optimizer: Optimizer, team: Team) -> tuple[Position, Past]:
    """Put everything back to where it was."""
    if snapshot.facts["ranks"] != team.size:
        raise RunError(
            f"the run was trained by {snapshot.facts['ranks']} processes and goes on bit for bit only with as many, "
            f"found {team.size}"
        )
    model.load_state_dict(snapshot.model)
    kept = nest(snapshot.training)
    state = {int(index): values for index, values in kept.get("optimizer", {}).items()}
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    mine = kept["rank"][str(team.rank)]
    torch.set_rng_state(mine["random"])
    facts = snapshot.facts["position"]
    position = Position(**{**facts, "scores": tuple(facts["scores"])})
    averaged = {
        name.removeprefix("weights."): value for name, value in snapshot.training.items() if name.startswith("weights.")
    }
    weights: dict[int, dict[str, Tensor]] = {}
    for name, value in averaged.items():
        index, _, own = name.partition(".")
        weights.setdefault(int(index), {})[own] = value
    carried = tuple(listed(slot) for _, slot in sorted(mine.get("carried", {}).items(), key=lambda item: int(item[0])))
    return position, Past(carried, tuple(weights[index] for index in sorted(weights)))


def copy(model: nn.Module) -> dict[str, Tensor]:
    """The weights as they are now."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def mean(weights: tuple[dict[str, Tensor], ...]) -> dict[str, Tensor]:
    """Of each weight; whole numbers are those of the last."""
    stacked = {name: torch.stack([each[name] for each in weights]) for name in weights[0]}
    return {
        name: tensors.mean(dim=0) if tensors.is_floating_point() else tensors[-1] for name, tensors in stacked.items()
    }


def flatten(state: Any, name: str) -> dict[str, Tensor]:
    """The tensors of a state by the way to them."""
    if isinstance(state, Tensor):
        return {name: state.detach()}
    if not state:
        return {f"{name}.{EMPTY}": torch.empty(0)}
    found: dict[str, Tensor] = {}
    for index, part in enumerate(state):
        found.update(flatten(part, f"{name}.{index}"))
    return found


def nest(tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Tensors by dotted names as dictionaries inside of each other."""
    root: dict[str, Any] = {}
    for name, tensor in tensors.items():
        *way, last = name.split(".")
        place = root
        for step in way:
            place = place.setdefault(step, {})
        place[last] = tensor
    return root


def listed(nested: Any) -> Any:
    """Dictionaries with the keys 0, 1, … as tuples: a state, whose layers know their own names for its parts."""
    if isinstance(nested, Tensor):
        return nested
    if EMPTY in nested:
        return ()
    return tuple(listed(nested[str(index)]) for index in range(len(nested)))
