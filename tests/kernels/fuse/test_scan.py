"""The fused scan itself, without cells and layers."""

from collections.abc import Mapping

import pytest
import torch
from tests.contracts.registry import noise
from tests.kernels.fuse.comparison import Case, assert_same, plain, results_and_gradients
from torch import Tensor
from torch.nn import functional

from seqloom.kernels.fuse.scan import Unfusable, fuse

H, P, D, T, B = 5, 10, 3, 6, 4
Parameters = Mapping[str, Tensor]


def step(parameters: Parameters, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """A gated unit with two states of different widths."""
    hidden, memory = state
    z = x + functional.linear(hidden, parameters["recurrent"], parameters["bias"])
    gate, candidate = torch.sigmoid(z[:, :H]), torch.tanh(z[:, H:])
    level = torch.tanh(memory + hidden[:, :2] * candidate[:, 3:])
    return gate * hidden + (1 - gate) * candidate * level[:, :1], level


def make_case(*, linear: bool = True, dtype: torch.dtype = torch.float64, time: int = T, batch: int = B) -> Case:
    parameters = {
        "recurrent": 0.4 * noise(P, H, seed=1, dtype=dtype),
        "bias": noise(P, seed=2, dtype=dtype),
    }
    if linear:
        parameters["input"] = noise(P, D, seed=3, dtype=dtype)
    name = "input" if linear else None
    return Case(step, parameters, projected=P, state=(H, 2), shape=(time, batch), linear=name)


@pytest.mark.parametrize("linear", [True, False], ids=["input", "projected"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("lengths", [None, [6, 6, 6, 6], [2, 6, 0, 1], [0, 0, 0, 0]], ids=str)
def test_scan_equals_the_loop(linear: bool, reverse: bool, lengths: list[int] | None) -> None:
    case = make_case(linear=linear)
    case.check(lengths=None if lengths is None else torch.tensor(lengths), reverse=reverse)


@pytest.mark.parametrize("linear", [True, False], ids=["input", "projected"])
def test_inputs_of_any_strides(linear: bool) -> None:
    case = make_case(linear=linear)
    size = case.x.shape[2]
    expected = case.by_loop()
    layouts = {
        "batch first": case.x.detach().transpose(0, 1).contiguous().transpose(0, 1),
        "columns with gaps": torch.stack([case.x.detach(), torch.full_like(case.x, torch.nan)], dim=-1)[..., 0],
        "slice of a wider tensor": torch.cat([case.x.detach(), torch.full_like(case.x, torch.nan)], dim=2)[:, :, :size],
        "time last": case.x.detach().permute(2, 1, 0).contiguous().permute(2, 1, 0),
    }
    for name, x in layouts.items():
        assert torch.equal(x, case.x), name
        case.x = x.requires_grad_()
        assert_same(case.by_kernel(), expected)


def test_an_expanded_input() -> None:
    case = make_case()
    x = noise(T, 1, D, seed=9).requires_grad_()
    case.x = x
    sources = {"x": x}
    actual = results_and_gradients(lambda: case.fused(x.expand(T, B, D), case.state, case.parameters), sources)
    expected = results_and_gradients(lambda: case.fused(x.repeat(1, B, 1), case.state, case.parameters), sources)
    assert_same(actual, expected)


def test_states_and_parameters_of_any_strides() -> None:
    case = make_case()
    expected = case.by_loop()
    case.state = tuple(field.detach().t().contiguous().t().requires_grad_() for field in case.state)
    transposed = {
        name: value.detach().t().contiguous().t() for name, value in case.parameters.items() if value.dim() == 2
    }
    for name, value in transposed.items():
        case.parameters[name] = value.requires_grad_()
    assert_same(case.by_kernel(), expected)


def test_gradients_are_computed_only_where_required() -> None:
    case = make_case()
    expected = case.by_loop()
    case.x.requires_grad_(False)
    case.parameters["recurrent"].requires_grad_(False)
    out, final = case.fused(case.x, case.state, case.parameters)
    (out * noise(T, B, H)).sum().add((final[0] * noise(B, H, seed=1)).sum()).add(
        (final[1] * noise(B, 2, seed=2)).sum()
    ).backward()
    assert case.x.grad is None
    assert case.parameters["recurrent"].grad is None
    for name, source in {"input": case.parameters["input"], "initial 0": case.state[0]}.items():
        assert source.grad is not None
        torch.testing.assert_close(source.grad, expected[f"gradient of {name}"], rtol=0, atol=1e-12)


def test_without_any_gradient_nothing_is_recorded() -> None:
    case = make_case()
    frozen = {name: value.detach() for name, value in case.parameters.items()}
    out, final = case.fused(case.x.detach(), tuple(field.detach() for field in case.state), frozen)
    assert not out.requires_grad
    assert not any(field.requires_grad for field in final)
    torch.testing.assert_close(out, case.by_loop()["out"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("used", ["out", "final 0", "final 1"])
def test_gradients_of_a_single_result(used: str) -> None:
    case = make_case()

    def gradients(out: Tensor, final: tuple[Tensor, ...]) -> list[Tensor]:
        value = {"out": out, "final 0": final[0], "final 1": final[1]}[used]
        actual = torch.autograd.grad(value.square().sum(), list(case.sources.values()))
        return list(actual)

    actual = gradients(*case.fused(case.x, case.state, case.parameters))
    x = functional.linear(case.x, case.parameters["input"])
    expected = gradients(*plain(step, x, case.state, case.parameters))
    for left, right in zip(actual, expected, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-12)


def test_backward_twice_gives_the_same_gradients() -> None:
    case = make_case()
    out, _ = case.fused(case.x, case.state, case.parameters)
    loss = out.square().sum()
    first = torch.autograd.grad(loss, list(case.sources.values()), retain_graph=True)
    second = torch.autograd.grad(loss, list(case.sources.values()))
    for left, right in zip(first, second, strict=True):
        assert torch.equal(left, right)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, case.x)


def test_gradients_accumulate() -> None:
    case = make_case()
    for _ in range(3):
        case.fused(case.x, case.state, case.parameters)[0].square().sum().backward()
    three = {name: source.grad for name, source in case.sources.items()}
    for source in case.sources.values():
        source.grad = None
    case.fused(case.x, case.state, case.parameters)[0].square().sum().backward()
    for name, source in case.sources.items():
        assert source.grad is not None
        grad = three[name]
        assert grad is not None
        torch.testing.assert_close(grad, 3 * source.grad, rtol=1e-14, atol=1e-14)


def test_results_can_be_used_more_than_once() -> None:
    case = make_case()
    out, final = case.fused(case.x, case.state, case.parameters)
    again, _ = case.fused(case.x, final, case.parameters)
    actual = torch.autograd.grad((out * again).sum(), case.parameters["recurrent"])
    x = functional.linear(case.x, case.parameters["input"])
    out, final = plain(step, x, case.state, case.parameters)
    again, _ = plain(step, x, final, case.parameters)
    expected = torch.autograd.grad((out * again).sum(), case.parameters["recurrent"])
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def test_changing_an_output_in_place_is_noticed() -> None:
    case = make_case()
    out, _ = case.fused(case.x, case.state, case.parameters)
    loss = out.square().sum()
    out.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_changing_a_parameter_before_backward_is_noticed() -> None:
    case = make_case()
    out, _ = case.fused(case.x, case.state, case.parameters)
    with torch.no_grad():
        case.parameters["recurrent"].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_changing_the_state_before_backward_is_noticed() -> None:
    case = make_case()
    state = tuple(field.detach().clone() for field in case.state)
    out, _ = case.fused(case.x, state, case.parameters)
    state[0].zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_inputs_are_not_modified() -> None:
    case = make_case()
    before = {name: value.detach().clone() for name, value in case.sources.items()}
    case.by_kernel(lengths=torch.tensor([2, 6, 0, 1]))
    for name, value in case.sources.items():
        assert torch.equal(value, before[name]), name


def test_results_do_not_share_memory_with_later_calls() -> None:
    case = make_case()
    first, _ = case.fused(case.x.detach(), case.state, case.parameters)
    kept = first.detach().clone()
    case.fused(2 * case.x.detach(), case.state, case.parameters)
    assert torch.equal(first, kept)


@pytest.mark.parametrize(("time", "batch"), [(0, 3), (4, 0), (0, 0)])
def test_empty_sequences_and_batches(time: int, batch: int) -> None:
    case = make_case(time=time, batch=batch)
    out, final = case.fused(case.x, case.state, case.parameters)
    assert out.shape == (time, batch, H)
    assert all(torch.equal(left, right) for left, right in zip(final, case.state, strict=True))
    actual = torch.autograd.grad(
        out.sum() + torch.stack([field.sum() for field in final]).sum(), list(case.sources.values())
    )
    for (name, source), gradient in zip(case.sources.items(), actual, strict=True):
        expected = torch.ones_like(source) if name.startswith("initial") else torch.zeros_like(source)
        assert torch.equal(gradient, expected), name


@pytest.mark.parametrize(
    ("dtypes", "reason"),
    [
        ((torch.float16, torch.float16), "torch.float16"),
        ((torch.float32, torch.float64), "torch.float32, torch.float64, not all float32 or all float64"),
        ((torch.int64, torch.int64), "torch.int64"),
    ],
)
def test_only_float32_and_float64(dtypes: tuple[torch.dtype, torch.dtype], reason: str) -> None:
    parameters = {"recurrent": torch.zeros(P, H, dtype=dtypes[0]), "bias": torch.zeros(P, dtype=dtypes[1])}
    with pytest.raises(Unfusable, match=reason):
        fuse(step, parameters, projected=P, state=(H, 2))
