"""Checks of what a checkpoint stores about a training, before it is used: the run may be damaged or malicious."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from seqloom.checkpoint import RunError, Snapshot
from seqloom.training.progress import Position

MOMENTS = {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}
KEYS = ({"momentum_buffer"}, {"step", "exp_avg", "exp_avg_sq"}, MOMENTS)
"""What the optimizers store for each parameter."""
COUNTERS = ("epoch", "batch", "update", "seen")
"""What every position has, also that of an older version."""
_POSITION = TypeAdapter(Position)


def read_position(facts: Mapping[str, Any]) -> Position:
    """The position that a checkpoint stores; RunError if it is not one."""
    stored = facts.get("position")
    missing = [name for name in COUNTERS if not isinstance(stored, dict) or name not in stored]
    if missing:
        raise RunError(f"the last checkpoint cannot be resumed: position.{missing[0]} is missing")
    try:
        position = _POSITION.validate_python(stored)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, ("position", *problem["loc"])))
        raise RunError(f"the last checkpoint cannot be resumed: {place}: {problem['msg']}") from None
    counters = {name: value for name, value in position._asdict().items() if type(value) is int}
    if negative := [name for name, value in counters.items() if value < 0]:
        raise RunError(f"the last checkpoint cannot be resumed: position.{negative[0]} is negative")
    return position


def check_facts(snapshot: Snapshot) -> Position:
    """The position of a checkpoint; RunError unless its facts are complete."""
    facts = snapshot.facts
    position = read_position(facts)
    for name, kinds in (("rows", int), ("ranks", int), ("seconds", (int, float))):
        value = facts.get(name)
        if not isinstance(value, kinds) or isinstance(value, bool) or not 0 <= value < math.inf:
            raise RunError(f"the last checkpoint cannot be resumed: {name}: expected a number, found {value!r:.40}")
    return position


def check_training(
    training: Mapping[str, Tensor],
    parameters: Sequence[Tensor],  # that the optimizer changes
    weights: Mapping[str, Tensor],  # of the model
    *,
    rank: int,
) -> None:
    """Raise RunError unless the state of a training fits its model."""
    moments: dict[int, set[str]] = {}
    for name, tensor in training.items():
        kind, _, rest = name.partition(".")
        index, _, key = rest.partition(".")
        if kind not in ("optimizer", "weights", "rank") or not index.isdecimal() or not key:
            raise _unfit(name, "unknown")
        if kind == "optimizer":
            if int(index) >= len(parameters) or tensor.shape not in (parameters[int(index)].shape, ()):
                raise _unfit(name, "fits no parameter")
            moments.setdefault(int(index), set()).add(key)
        elif kind == "weights" and (key not in weights or weights[key].shape != tensor.shape):
            raise _unfit(name, "fits no weights of the model")
    if incomplete := [index for index, keys in moments.items() if keys not in KEYS]:
        raise _unfit(f"optimizer.{incomplete[0]}", "incomplete")
    state, own = torch.get_rng_state(), training.get(f"rank.{rank}.random")
    if own is None or own.shape != state.shape or own.dtype != state.dtype:
        raise _unfit(f"rank.{rank}.random", "missing or no random state")


def _unfit(name: str, problem: str) -> RunError:
    return RunError(f"the last checkpoint cannot be resumed: {name[:80]}: {problem}")
