"""Steps with a matrix as state: products of matrices and vectors of each row of the batch, against the plain loop."""

from collections.abc import Callable, Mapping

import pytest
import torch
from tests.contracts.registry import noise
from tests.kernels.fuse.comparison import Case
from torch import Tensor

from seqloom.kernels.fuse.contraction_rules import Loop, _merged

Step = Callable[[Mapping[str, Tensor], Tensor, tuple[Tensor, ...], int], tuple[Tensor, ...]]


def fast_weights(p: Mapping[str, Tensor], x: Tensor, state: tuple[Tensor, ...], size: int) -> tuple[Tensor, ...]:
    """C' = f C + v kᵀ, h' = C' q (Schmidhuber 1992)."""
    k, v, q = (x + state[0].tanh() @ p["matrix"]).chunk(3, dim=-1)
    memory = state[1].view(-1, size, size)
    memory = torch.sigmoid(p["vector"][:1]) * memory + torch.einsum("bi,bj->bij", v.tanh(), k.tanh())
    hidden = torch.einsum("bij,bj->bi", memory, q.sigmoid())
    return torch.cat([hidden, q, k], dim=-1).tanh(), memory.reshape(len(x), -1)


def delta_rule(p: Mapping[str, Tensor], x: Tensor, state: tuple[Tensor, ...], size: int) -> tuple[Tensor, ...]:
    """What the memory holds for a key is read and replaced, by matmul and bmm."""
    k, v, q = (x + state[0]).tanh().chunk(3, dim=-1)
    memory = state[1].view(len(x), size, size)
    old = (memory @ k.unsqueeze(2)).squeeze(2)
    memory = memory + torch.bmm((v - old).unsqueeze(2), k.unsqueeze(1)) * p["vector"][:size]
    read = torch.bmm(q.unsqueeze(1), memory).squeeze(1)
    return torch.cat([read, old, memory.sum(dim=2)], dim=-1).sin(), (0.5 * memory).flatten(1)


def heads(p: Mapping[str, Tensor], x: Tensor, state: tuple[Tensor, ...], size: int) -> tuple[Tensor, ...]:
    """Two heads with a forget gate each, and a normaliser (mLSTM, Beck et al. 2024)."""
    k, v, q = (value.unflatten(-1, (2, -1)) for value in torch.tanh(x + state[0]).chunk(3, dim=-1))  # (B, 2, d)
    forget = (p["vector"][:2] + x[:, :2]).sigmoid().view(-1, 2, 1, 1)
    memory = forget * state[1].view(-1, 2, size, size) + v.unsqueeze(-1) * k.unsqueeze(-2)
    read = torch.einsum("bhij,bhj->bhi", memory, q)
    normal = (k * q).sum(dim=-1, keepdim=True).square() + 1
    hidden = (read / normal).transpose(1, 2)
    return torch.cat([hidden.flatten(1), q.flatten(1), v.flatten(1)], dim=-1), memory.flatten(1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("step", "size", "parts"), [(fast_weights, 5, 1), (fast_weights, 9, 1), (delta_rule, 3, 1), (heads, 3, 2)]
)
def test_a_matrix_as_state(step: Step, size: int, parts: int, dtype: torch.dtype) -> None:
    width = 3 * size * parts
    parameters = {"matrix": (0.3 * noise(width, width, seed=1)).to(dtype), "vector": noise(width, seed=2).to(dtype)}
    case = Case(
        lambda p, x, state: step(p, x, state, size),
        parameters if step is fast_weights else {"vector": parameters["vector"]},
        projected=width,
        state=(width, parts * size * size),
        shape=(4, 4),
    )
    case.check(lengths=torch.tensor([4, 1, 0, 3]))
    case.check(reverse=True)


def test_loops_are_merged() -> None:
    assert _merged([Loop(1, 0, 0), Loop(2, 12, 3), Loop(3, 4, 1), Loop(4, 1, 0)]) == [Loop(6, 4, 1), Loop(4, 1, 0)]
