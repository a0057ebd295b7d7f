"""Optimizers and the norm of a gradient."""

import inspect
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from seqloom.training.config import OptimizerName


def _without_compiler(optimizer: type[Optimizer]) -> Any:
    """The same optimizer for use outside of ``torch.compile``, whose import at the first update takes over a second.

    torch wraps these methods to exclude them from the compiler, and ``step`` also to disable gradients.
    """
    names = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")
    methods = {name: inspect.unwrap(getattr(optimizer, name)) for name in names}
    step = torch.no_grad()(inspect.unwrap(optimizer.step))
    return type(optimizer.__name__, (optimizer,), {**methods, "step": step})


OPTIMIZERS: dict[OptimizerName, Any] = {
    "adam": _without_compiler(Adam),
    "adamw": _without_compiler(AdamW),
    "sgd": _without_compiler(SGD),
}


def build(
    name: OptimizerName,
    model: nn.Module,
    *,
    learning_rate: float,
    weight_decay: float,
    momentum: float,  # SGD only; Adam and AdamW keep their default betas
) -> Optimizer:
    """An optimizer of all trainable parameters, without weight decay for vectors (biases, normalisation gains)."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    factors = learning_rate_factors(model)
    groups: list[dict[str, Any]] = []
    for factor in sorted({factors.get(parameter, 1.0) for parameter in trained}, reverse=True):
        same = [parameter for parameter in trained if factors.get(parameter, 1.0) == factor]
        for matrices in (True, False):
            chosen = [parameter for parameter in same if (parameter.dim() > 1) is matrices]
            decay = weight_decay if matrices else 0.0
            groups += [{"params": chosen, "weight_decay": decay, FACTOR: factor}] if chosen else []
    options = {"momentum": momentum} if name == "sgd" else {}
    optimizer: Optimizer = OPTIMIZERS[name](groups, lr=learning_rate, fused=True, **options)
    set_learning_rate(optimizer, learning_rate)
    return optimizer


FACTOR = "factor"
"""What the learning rate of a group of parameters is multiplied with."""


def learning_rate_factors(model: nn.Module) -> dict[nn.Parameter, float]:
    """The factors of parameters that learn more slowly, as modules with a method of this name say."""
    factors: dict[nn.Parameter, float] = {}
    for module in model.modules():
        own = getattr(module, "learning_rate_factors", None)
        factors |= own() if own is not None else {}
    return factors


def set_learning_rate(optimizer: Optimizer, learning_rate: float) -> None:
    """Set the learning rate of all parameters, each group by its factor."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group[FACTOR]


def step(optimizer: Optimizer, *, divisor: float) -> None:
    """One step with all gradients divided by a number, in the same pass over memory."""
    vars(optimizer)["grad_scale"] = torch.tensor(divisor)  # where torch's GradScaler puts it for fused optimizers
    optimizer.step()


def tensor_norms(gradients: list[Tensor]) -> Tensor:  # (number of tensors,)
    """The Euclidean norm of each gradient."""
    return torch.stack(torch._foreach_norm(gradients)) if gradients else torch.zeros(0)  # noqa: SLF001  no public name


def total_norm(norms: Tensor) -> float:
    """The Euclidean norm of all gradients together, from that of each."""
    return float(torch.linalg.vector_norm(norms))


MAX_GROUPS = 40
"""Groups of parameters by layer; a model with more layers has one group for all of them."""


def parameter_groups(names: Iterable[str]) -> dict[str, str]:
    """The group of each parameter: its module down to the first numbered layer, or to the second level."""
    names = list(names)
    groups = {name: _group(name) for name in names}
    if len(set(groups.values())) > MAX_GROUPS:
        groups = {name: re.sub(r"(\.\d+)+$", "", group) for name, group in groups.items()}
    return groups


def _group(name: str) -> str:
    *modules, parameter = name.split(".")
    numbered = next((index for index, module in enumerate(modules) if module.isdigit()), 1)
    return ".".join(modules[: numbered + 1]) or parameter


def group_norms(names: Sequence[str], norms: Tensor) -> dict[str, float]:
    """The Euclidean norm of the gradient of each group, from that of each parameter."""
    squares: dict[str, float] = {}
    groups = parameter_groups(names)
    for name, norm in zip(names, norms.tolist(), strict=True):
        squares[groups[name]] = squares.get(groups[name], 0.0) + norm * norm
    return {name: math.sqrt(square) for name, square in squares.items()}
