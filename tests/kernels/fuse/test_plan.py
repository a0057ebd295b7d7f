"""Values saved for the gradient, and deferred products, for cells whose best plan is known."""

from typing import cast

import pytest
from tests.contracts.registry import cells, noise
from torch import Tensor

from seqloom.cells.sru import SRU
from seqloom.kernels.fuse.plan import Plan, plan
from seqloom.kernels.fuse.scan import FusedScan
from seqloom.kernels.fuse.trace import trace
from seqloom.layers.recurrent.recurrent import Recurrent

H = 6


def planned(name: str) -> Plan:
    layer = Recurrent(cells()[name](4, H).double())
    return cast("FusedScan", layer.kernel(noise(1, 1, 4))).plan


# LSTM: three gates and the candidate; tanh of the memory is computed again. Coupled: no forget gate.
# GRU after: reset, update, candidate, and U h of the candidate, which the reset gate multiplies.
# GRU before: reset, update, candidate. Elman: its output is all that its gradient needs.
# MinLSTM: both gates, before (where they are limited) and after their activation, and the candidate.
@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("LSTM()", 4),
        ("Peephole()", 4),
        ("Coupled()", 3),
        ("GRU(reset=before)", 3),
        ("GRU(reset=after)", 4),
        ("Elman(activation=tanh)", 0),
        ("Elman(activation=relu)", 0),
        ("IndRNN()", 0),
        ("MinGRU()", 2),
        ("MinLSTM()", 5),
    ],
)
def test_values_saved_for_each_unit(name: str, saved: int) -> None:
    assert planned(name).saved_width == saved * H


def test_an_input_that_the_step_reads_is_not_saved() -> None:
    layer = Recurrent(SRU(H, H).double())  # two gates and the candidate; the memory is part of the state
    assert cast("FusedScan", layer.kernel(noise(1, 1, H))).plan.saved_width == 3 * H


@pytest.mark.parametrize(
    ("name", "forward", "backward"),
    [
        ("LSTM()", [(H, 4 * H)], [(4 * H, H)]),
        ("Coupled()", [(H, 3 * H)], [(3 * H, H)]),
        ("Elman(activation=tanh)", [(H, H)], [(H, H)]),
        ("GRU(reset=after)", [(H, 2 * H), (H, H)], [(H, H), (2 * H, H)]),
        ("GRU(reset=before)", [(H, 2 * H), (H, H)], [(H, H), (2 * H, H)]),
    ],
)
def test_products_at_each_step(name: str, forward: list[tuple[int, int]], backward: list[tuple[int, int]]) -> None:
    result = planned(name)

    def shapes(indices: list[int]) -> list[tuple[int, int]]:
        products = [result.traced.products[index] for index in indices]
        return [(sum(segment.width for segment in product.operand), product.size) for product in products]

    assert shapes(result.forward_products) == forward
    assert sorted(shapes(result.backward_products)) == sorted(backward)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("LSTM()", {("recurrent.weight", 4 * H, H), ("input.weight", 4 * H, 4)}),
        (
            "GRU(reset=after)",
            {("recurrent.weight", 2 * H, H), ("candidate.weight", H, H), ("input.weight", 3 * H, 4)},
        ),
        ("Elman(activation=tanh)", {("recurrent.weight", H, H), ("input.weight", H, 4)}),
    ],
)
def test_gradients_of_matrices_are_deferred(name: str, expected: set[tuple[str, int, int]]) -> None:
    result = planned(name)
    shapes = set()
    for deferred in result.deferred:
        left, right = (deferred.right, deferred.left) if deferred.swapped else (deferred.left, deferred.right)
        shapes.add((deferred.parameter, left.size, right.size))
    assert shapes == expected


def test_the_gradient_of_the_projected_input_is_not_written_twice() -> None:
    result = planned("LSTM()")
    assert result.factors[0] == 4 * H
    assert all(block in (0, "input") or result.factors[int(block)] == H for block in blocks(result))
    assert [factor.block for factor in result.operands.values()] == [0]


def blocks(result: Plan) -> list[str | int]:
    return [side.block for deferred in result.deferred for side in (deferred.left, deferred.right)]


def test_a_team_shares_only_steps_without_reductions() -> None:
    assert planned("LSTM()").shareable
    assert planned("GRU(reset=before)").shareable
    assert not planned("LayerNormLSTM()").shareable


def test_descriptions_differ_where_code_does() -> None:
    texts = [planned(name).describe() for name in cells() if "RecurrentDropout" not in name]
    assert planned("LSTM()").describe() == planned("LSTM()").describe()
    assert len(set(texts)) >= len(texts) - 3  # in eval mode, wrappers without noise equal the wrapped cell


def test_constants_are_part_of_the_description() -> None:
    def described(factor: float) -> str:
        def step(parameters: object, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return (factor * state[0] + x,)

        return plan(trace(step, {"unused": noise(3)}, 3, (3,))).describe()

    assert described(0.5) != described(0.25)
    assert described(0.5) == described(0.5)
