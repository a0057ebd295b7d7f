from tests.contracts.registry import noise
from tests.kernels.fuse.test_plan import planned
from torch import Tensor

from seqloom.kernels.fuse.expression import REDUCTIONS
from seqloom.kernels.fuse.plan import Plan, plan
from seqloom.kernels.fuse.schedule import Schedule
from seqloom.kernels.fuse.trace import trace


def stages(schedule: Schedule) -> list[tuple[int, int]]:
    """The number of products and of loops in each stage."""
    return [(len(stage.products), len(stage.loops)) for stage in schedule.stages]


def test_a_step_with_one_product_is_one_stage_of_one_loop() -> None:
    for name in ("LSTM()", "Coupled()", "Elman(activation=tanh)"):
        assert stages(planned(name).forward) == [(1, 1)], name
        assert stages(planned(name).training) == [(1, 1)], name


def test_independent_products_share_a_stage() -> None:
    assert stages(planned("GRU(reset=after)").forward) == [(2, 1)]


def test_a_dependent_product_has_its_own_stage() -> None:
    result = planned("GRU(reset=before)")
    assert [products for products, _ in stages(result.forward)] == [1, 1]
    assert sum(products for products, _ in stages(result.backward)) == 2
    assert len(result.backward.stages) == 3  # operands of the first product, and one stage after each of the two


def test_the_first_backward_stage_computes_the_operand_of_the_product() -> None:
    backward = planned("LSTM()").backward
    assert [products for products, _ in stages(backward)] == [0, 1]


def test_each_location_is_stored_exactly_once() -> None:
    for name in ("LSTM()", "GRU(reset=before)", "LayerNormGRU()", "Zoneout(LSTM)"):
        result = planned(name)
        for schedule in (result.forward, result.training, result.backward):
            filled: dict[tuple[str, str | int], list[tuple[int, int]]] = {}
            for stage in schedule.stages:
                for _, loop in stage.loops:
                    for _, location in loop.stores:
                        filled.setdefault((location.kind, location.name), []).append((location.offset, loop.width))
            for spans in filled.values():
                end = 0
                for offset, size in sorted(spans):
                    assert offset == end, (name, filled)
                    end += size
            width = {location: sum(size for _, size in spans) for location, spans in filled.items()}
            if schedule is not result.backward:
                assert [width["next", index] for index in range(len(result.traced.state_widths))] == [
                    *result.traced.state_widths
                ]
            assert width.get(("temporary", ""), 0) == schedule.temporary_width


def test_values_are_ready_after_their_arguments() -> None:
    for name in ("LSTM()", "GRU(reset=before)", "LayerNormLSTM()"):
        for schedule in (planned(name).forward, planned(name).training, planned(name).backward):
            for node, ready in schedule.ready_times.items():
                for argument in node.arguments:
                    before = schedule.ready_times[argument]
                    assert before < ready if node.operation in REDUCTIONS else before <= ready


def normalised() -> Plan:
    def step(parameters: object, x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        z = (x + state[0]).exp()
        return (z / z.sum(dim=1, keepdim=True),)

    return plan(trace(step, {"unused": noise(3)}, 8, (8,)))


def test_a_reduction_ends_a_loop() -> None:
    result = normalised().forward
    ((products, loops),) = stages(result)
    assert (products, loops) == (0, 2)
    first, second = (loop for _, loop in result.stages[0].loops)
    assert [node.operation for node in first.reductions] == ["sum"]
    assert second.reductions == []


def test_expensive_values_are_stored_for_later_loops() -> None:
    result = normalised().forward
    assert [node.operation for node in result.temporaries] == ["exp"]
    assert result.temporary_width == 8
