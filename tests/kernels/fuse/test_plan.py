"""What is kept for the gradient, and which products are put off: counted for cells whose best plan is known."""

from typing import cast

import pytest
from tests.contracts.registry import cells, noise
from torch import Tensor

from seqloom.kernels.fuse.plan import Plan, plan
from seqloom.kernels.fuse.scan import FusedScan
from seqloom.kernels.fuse.trace import trace
from seqloom.layers.recurrent.recurrent import Recurrent

H = 6


def planned(name: str) -> Plan:
    layer = Recurrent(cells()[name](4, H).double())
    return cast("FusedScan", layer._kernel(noise(1, 1, 4))).plan


# LSTM: three gates and the candidate; tanh of the memory is computed again. Coupled: no forget gate.
# GRU after: reset, update, candidate, and U h of the candidate, which the reset gate multiplies.
# GRU before: reset, update, candidate. Elman: its output is all that its gradient needs.
@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("LSTM()", 4),
        ("Peephole()", 4),
        ("Coupled()", 3),
        ("GRU(reset=before)", 3),
        ("GRU(reset=after)", 4),
        ("Elman(activation=tanh)", 0),
        ("Elman(activation=relu)", 0),
    ],
)
def test_values_kept_for_each_unit(name: str, kept: int) -> None:
    assert planned(name).saved_width == kept * H


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
    found = planned(name)

    def shapes(indices: list[int]) -> list[tuple[int, int]]:
        products = [found.traced.products[index] for index in indices]
        return [(sum(segment.width for segment in product.operand), product.size) for product in products]

    assert shapes(found.forward_products) == forward
    assert sorted(shapes(found.backward_products)) == sorted(backward)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("LSTM()", {("recurrent.weight", 4 * H, H), ("input.weight", 4 * H, 4)}),
        (
            "GRU(reset=after)",
            {("recurrent.weight", 2 * H, H), ("candidate.weight", H, H), ("input.weight", 3 * H, 4)},
        ),
        ("Elman(activation=tanh)", {("recurrent.weight", H, H), ("input.weight", H, 4)}),
    ],
)
def test_gradients_of_matrices_are_put_off(name: str, wanted: set[tuple[str, int, int]]) -> None:
    found = planned(name)
    shapes = set()
    for deferred in found.deferred:
        left, right = (deferred.right, deferred.left) if deferred.swapped else (deferred.left, deferred.right)
        shapes.add((deferred.parameter, left.size, right.size))
    assert shapes == wanted


def test_the_gradient_of_the_projected_input_is_not_written_twice() -> None:
    found = planned("LSTM()")
    assert found.factors[0] == 4 * H
    assert all(block in (0, "input") or found.factors[int(block)] == H for block in blocks(found))
    assert [factor.block for factor in found.operands.values()] == [0]


def blocks(found: Plan) -> list[str | int]:
    return [side.block for deferred in found.deferred for side in (deferred.left, deferred.right)]


def test_only_a_step_without_sums_over_its_row_is_shared_by_a_team() -> None:
    assert planned("LSTM()").shareable
    assert planned("GRU(reset=before)").shareable
    assert not planned("LayerNormLSTM()").shareable


def test_descriptions_differ_where_code_does() -> None:
    texts = [planned(name).describe() for name in cells() if "RecurrentDropout" not in name]
    assert planned("LSTM()").describe() == planned("LSTM()").describe()
    assert len(set(texts)) >= len(texts) - 3  # noise that is not drawn leaves the cell inside


def test_constants_are_part_of_the_description() -> None:
    def described(factor: float) -> str:
        def step(parameters: object, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return (factor * state[0] + x,)

        return plan(trace(step, {"unused": noise(3)}, 3, (3,))).describe()

    assert described(0.5) != described(0.25)
    assert described(0.5) == described(0.5)
