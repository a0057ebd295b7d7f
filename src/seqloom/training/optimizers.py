"""Optimizers and the norm of a gradient."""

import inspect
from collections.abc import Iterable
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
    groups = [
        {"params": [parameter for parameter in trained if parameter.dim() > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trained if parameter.dim() <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    options = {"momentum": momentum} if name == "sgd" else {}
    optimizer: Optimizer = OPTIMIZERS[name](groups, lr=learning_rate, fused=True, **options)
    return optimizer


def total_norm(gradients: Iterable[Tensor]) -> float:
    """The Euclidean norm of all gradients together."""
    return float(nn.utils.get_total_norm(gradients))
