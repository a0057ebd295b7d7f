"""Every supported operator by itself against torch: values and gradients, also at kinks and for NaN."""

from collections.abc import Callable, Mapping

import pytest
import torch
from tests.contracts.registry import noise
from tests.kernels.fuse.comparison import Case
from torch import Tensor
from torch.nn import functional

pytestmark = pytest.mark.sampled(3)

WIDTH = 5

UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "rsub": lambda z: 1 - z,
    "neg": lambda z: -z,
    "reciprocal": lambda z: (z * z + 0.5).reciprocal(),
    "divide a number": lambda z: 2 / (z * z + 0.5),
    "sqrt": lambda z: (z * z + 0.5).sqrt(),
    "rsqrt": lambda z: (z * z + 0.5).rsqrt(),
    "exp": lambda z: torch.exp(0.3 * z),
    "expm1": lambda z: torch.expm1(0.3 * z),
    "log": lambda z: torch.log(z * z + 0.5),
    "log1p": lambda z: torch.log1p(z * z),
    "abs": lambda z: z.abs(),
    "square": lambda z: (0.3 * z).square(),
    "power 3": lambda z: (0.5 * z) ** 3,
    "power 1": lambda z: z**1,
    "power -2": lambda z: (z * z + 1) ** -2,
    "power 0.5": lambda z: (z * z + 1) ** 0.5,
    "clamp": lambda z: z.clamp(-0.5, 1),
    "clamp below": lambda z: z.clamp(min=-0.5),
    "clamp above": lambda z: z.clamp(max=0.5),
    "hardtanh": lambda z: functional.hardtanh(z, -0.5, 1),
    "relu": functional.relu,
    "leaky relu": lambda z: functional.leaky_relu(z, 0.2),
    "elu": lambda z: functional.elu(z, 0.7),
    "selu": functional.selu,
    "silu": functional.silu,
    "softplus": lambda z: functional.softplus(z, beta=2, threshold=1),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "sin": lambda z: torch.sin(2 * z),
    "cos": lambda z: torch.cos(2 * z),
    "tan": lambda z: torch.tan(0.2 * torch.sin(z)),
    "erf": torch.erf,
    "erfc": torch.erfc,
    "gelu": functional.gelu,
    "gelu by tanh": lambda z: functional.gelu(z, approximate="tanh"),
    "log sigmoid": functional.logsigmoid,
    "is nan": lambda z: torch.where(z.isnan(), 0.0, z).exp() * z,
    "masked fill": lambda z: z.masked_fill(z > 0.5, 0.25),
    "softmax": lambda z: torch.softmax(z, dim=-1),
    "sum": lambda z: z * z.sum(dim=-1, keepdim=True) / 5,
    "mean": lambda z: z - z.mean(dim=1, keepdim=True),
    "log softmax": lambda z: torch.log_softmax(z, dim=-1),
    "logsumexp": lambda z: z - z.logsumexp(dim=-1, keepdim=True),
    "amax": lambda z: z - z.amax(dim=-1, keepdim=True),
    "amin": lambda z: z - z.amin(dim=-1, keepdim=True),
    "max": lambda z: 0.5 * z - z.max(dim=-1, keepdim=True).values,
    "min": lambda z: 0.5 * z - z.min(dim=1).values.unsqueeze(1),
    "norm": lambda z: z / (1 + z.norm(dim=-1, keepdim=True)),
    "normalize": lambda z: functional.normalize(z, dim=-1),
    "glu": lambda z: functional.glu(torch.cat([z, 2 * z], dim=-1), dim=-1),
    "column": lambda z: z * z[:, -2].unsqueeze(1),
    "layer norm": lambda z: functional.layer_norm(z, (WIDTH,)),
    "chunk": lambda z: torch.cat(z.chunk(2, dim=1)[::-1], dim=1),
    "detach": lambda z: z * torch.sigmoid(z).detach(),
    "zeros": lambda z: torch.where(z > 0, z, torch.zeros_like(z)),
    "in place": lambda z: (z * 2).add_(1).mul_(0.3),
}

BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda z, x: torch.add(z, x, alpha=0.3),
    "sub": lambda z, x: torch.sub(z, x, alpha=0.3),
    "mul": lambda z, x: z * 0.7 * x,
    "div": lambda z, x: z / (x * x + 0.5) / 3,
    "sign": lambda z, x: z * torch.sign(x),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "greater": lambda z, x: torch.where(z > x, z, 2 * x),
    "less": lambda z, x: torch.where(z < 0.5, z, x),
    "not less": lambda z, x: torch.where(z >= x, z, 2 * x),
    "not greater": lambda z, x: torch.where(z <= 0.5, z, x),
    "times a condition": lambda z, x: z * (x > 0),
    "equal": lambda z, x: torch.where(x == 0.5, z, x),
    "or": lambda z, x: torch.where((z > 1) | (x < 0), z, x),
    "and": lambda z, x: torch.where((z > -1) & (x < 0), z, x),
    "xor": lambda z, x: torch.where((z > 0) ^ (x > 0), z, 2 * x),
    "logaddexp": torch.logaddexp,
    "clamp by a tensor": lambda z, x: torch.clamp(z, min=x),
    "slice": lambda z, x: torch.cat([z[:, 3:], z[:, :3] * x[:, 2:]], dim=-1),
    "squeeze": lambda z, x: z * x[:, :1].squeeze(1).unsqueeze(1),
    "expand": lambda z, x: z + x[:, 1:2].expand(-1, WIDTH),
    "a constant state": lambda z, x: torch.ones_like(z) + 0 * x,
}

WITH_PARAMETERS: dict[str, Callable[[Tensor, Mapping[str, Tensor]], Tensor]] = {
    "layer norm with gain": lambda z, p: functional.layer_norm(z, (WIDTH,), p["vector"]),
    "layer norm with both": lambda z, p: functional.layer_norm(z, (WIDTH,), p["vector"], p["other"], eps=0.1),
    "scalar": lambda z, p: z * p["scalar"] + p["scalar"],
    "slice of a parameter": lambda z, p: torch.cat([z[:, :2] * p["vector"][3:], z[:, 2:] + p["other"][:3]], dim=1),
    "one row": lambda z, p: torch.tanh(z * p["row"] + torch.sigmoid(p["row"])),
    "one row, viewed": lambda z, p: z * p["row"][0] + p["row"].squeeze(0) + p["row"].expand(len(z), -1),
    "one row as a matrix": lambda z, p: torch.tanh(z + functional.linear(z, p["row"])),
    "an element": lambda z, p: z * p["vector"][1],
    "linear": lambda z, p: torch.tanh(functional.linear(z, p["matrix"], p["vector"])),
    "linear without bias": lambda z, p: torch.tanh(functional.linear(z, p["matrix"])),
    "not transposed": lambda z, p: torch.tanh(z @ p["matrix"]),
    "transposed and not": lambda z, p: torch.tanh(z @ p["matrix"] + z @ p["matrix"].T),
    "two successive products": lambda z, p: torch.tanh(torch.tanh(z @ p["matrix"]) @ p["matrix"]),
}


def parameters() -> dict[str, Tensor]:
    return {
        "matrix": 0.5 * noise(WIDTH, WIDTH, seed=1),
        "vector": noise(WIDTH, seed=2),
        "other": noise(WIDTH, seed=3),
        "scalar": noise(seed=4),
        "row": noise(1, WIDTH, seed=5),
    }


def make_case(name: str) -> Case:
    def step(parameters: Mapping[str, Tensor], x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        z = x + parameters["other"] * state[0]
        if name in UNARY:
            return (UNARY[name](z),)
        return (BINARY[name](z, x) if name in BINARY else WITH_PARAMETERS[name](z, parameters),)

    return Case(step, parameters(), projected=WIDTH, state=(WIDTH,), shape=(3, 4))


def test_in_single_precision() -> None:
    functions = ("sin", "cos", "erf", "gelu", "gelu by tanh", "log sigmoid", "log softmax", "logsumexp", "max", "norm")

    def step(parameters: Mapping[str, Tensor], x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        z = x + parameters["other"] * state[0]
        return (sum((UNARY[name](z) for name in functions[1:]), UNARY[functions[0]](z)).tanh(),)

    single = {name: value.float() for name, value in parameters().items()}
    Case(step, single, projected=WIDTH, state=(WIDTH,), shape=(3, 4)).check(lengths=torch.tensor([3, 1, 0, 2]))


@pytest.mark.parametrize("name", [*UNARY, *BINARY, *WITH_PARAMETERS])
def test_operator(name: str) -> None:
    case = make_case(name)
    lengths = torch.tensor([3, 1, 0, 2])
    case.check(lengths=lengths)
    with torch.no_grad():  # halves and zeros: ties and kinks have the same gradient as in torch
        case.x.copy_((2 * case.x).round() / 2)
        case.state[0].zero_()
    case.check(lengths=lengths)
    with torch.no_grad():
        case.x[1, 0, 3] = torch.nan
    actual, expected = case.by_kernel(lengths=lengths), case.by_loop(lengths=lengths)
    assert torch.equal(actual["out"].isnan(), expected["out"].isnan())
