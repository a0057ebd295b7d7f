from tests.contracts.registry import noise
from tests.kernels.fuse.test_plan import planned
from torch import Tensor

from seqloom.kernels.fuse.expression import REDUCTIONS
from seqloom.kernels.fuse.plan import Plan, plan
from seqloom.kernels.fuse.schedule import Schedule
from seqloom.kernels.fuse.trace import trace


def stages(schedule: Schedule) -> list[tuple[int, int]]:
    """Of each stage the number of products and of loops."""
    return [(len(stage.products), len(stage.loops)) for stage in schedule.stages]


def test_a_step_with_one_product_is_one_stage_of_one_loop() -> None:
    for name in ("LSTM()", "Coupled()", "Elman(activation=tanh)"):
        assert stages(planned(name).forward) == [(1, 1)], name
        assert stages(planned(name).training) == [(1, 1)], name


def test_products_that_need_not_wait_for_each_other_are_one_stage() -> None:
    assert stages(planned("GRU(reset=after)").forward) == [(2, 1)]


def test_a_product_that_waits_for_another_is_a_stage_of_its_own() -> None:
    found = planned("GRU(reset=before)")
    assert [products for products, _ in stages(found.forward)] == [1, 1]
    assert sum(products for products, _ in stages(found.backward)) == 2
    assert len(found.backward.stages) == 3  # what the first product needs, and what follows from each of the two


def test_the_gradient_of_a_step_begins_with_what_its_product_needs() -> None:
    backward = planned("LSTM()").backward
    assert [products for products, _ in stages(backward)] == [0, 1]


def test_each_place_is_stored_once_and_completely() -> None:
    for name in ("LSTM()", "GRU(reset=before)", "LayerNormGRU()", "Zoneout(LSTM)"):
        found = planned(name)
        for schedule in (found.forward, found.training, found.backward):
            filled: dict[tuple[str, str | int], list[tuple[int, int]]] = {}
            for stage in schedule.stages:
                for _, loop in stage.loops:
                    for _, place in loop.stores:
                        filled.setdefault((place.kind, place.name), []).append((place.offset, loop.width))
            for spans in filled.values():
                end = 0
                for offset, size in sorted(spans):
                    assert offset == end, (name, filled)
                    end += size
            width = {place: sum(size for _, size in spans) for place, spans in filled.items()}
            if schedule is not found.backward:
                assert [width["next", index] for index in range(len(found.traced.state))] == [*found.traced.state]
            assert width.get(("temporary", ""), 0) == schedule.temporary_width


def test_values_come_after_what_they_are_computed_from() -> None:
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


def test_a_loop_ends_where_a_sum_runs_over_the_row() -> None:
    found = normalised().forward
    ((products, loops),) = stages(found)
    assert (products, loops) == (0, 2)
    first, second = (loop for _, loop in found.stages[0].loops)
    assert [node.operation for node in first.reductions] == ["sum"]
    assert second.reductions == []


def test_what_is_costly_is_not_computed_again_in_a_later_loop() -> None:
    found = normalised().forward
    assert [node.operation for node in found.temporaries] == ["exp"]
    assert found.temporary_width == 8
