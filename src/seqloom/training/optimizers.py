"""Optimizers and the norm of a gradient."""

from collections.abc import Iterable
from typing import Literal

from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

OptimizerName = Literal["adam", "adamw", "sgd"]


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
    if name == "sgd":
        return SGD(groups, lr=learning_rate, momentum=momentum, fused=True)
    return (Adam if name == "adam" else AdamW)(groups, lr=learning_rate, fused=True)


def total_norm(gradients: Iterable[Tensor]) -> float:
    """The Euclidean norm of all gradients together."""
    return float(nn.utils.get_total_norm(gradients))
