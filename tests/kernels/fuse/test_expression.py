import pytest

from seqloom.kernels.fuse.expression import ExpressionNode, Graph, Segment, row_width, topological_order


@pytest.fixture
def graph() -> Graph:
    return Graph()


def text(node: ExpressionNode) -> str:
    if node.operation == "constant":
        return " ".join(map(str, node.data))
    if not node.arguments:
        name, offset = node.source
        return f"{node.operation}{name}[{offset}:{int(offset) + node.width}]"
    return f"{node.operation}({', '.join(text(argument) for argument in node.arguments)})"


def test_each_distinct_node_exists_once(graph: Graph) -> None:
    first, second = (graph.leaf("state", index, width=4) for index in (0, 1))
    assert graph.apply("mul", first, second) is graph.apply("mul", first, second)
    assert graph.apply("mul", first, second) is not graph.apply("mul", second, first)
    assert graph.leaf("state", 0, width=4) is first
    assert graph.constant(1) is graph.constant(1.0)
    assert graph.leaf("state", 0, width=3) is not first


def test_neutral_elements_are_simplified(graph: Graph) -> None:
    x = graph.leaf("state", 0, width=4)
    zero, one = graph.constant(0), graph.constant(1)
    assert graph.apply("add", x, zero) is graph.apply("add", zero, x) is x
    assert graph.apply("sub", x, zero) is x
    assert graph.apply("mul", x, one) is graph.apply("mul", one, x) is x
    assert graph.apply("sub", zero, x) is not x
    assert graph.apply("mul", x, zero).operation == "mul"  # NaN times zero is NaN


def test_a_slice_of_an_operation_is_the_operation_on_slices(graph: Graph) -> None:
    x, y = graph.leaf("projected", "", width=8, offset=3), graph.leaf("state", 0, width=8)
    both = graph.apply("add", graph.apply("tanh", x), graph.apply("mul", y, graph.constant(2)))
    assert text(graph.slice_node(both, 2, 4)) == "add(tanh(projected[5:9]), mul(state0[2:6], 2.0))"
    assert graph.slice_node(both, 0, 8) is both


def test_reductions_are_not_sliced(graph: Graph) -> None:
    x = graph.leaf("state", 0, width=8)
    normal = graph.apply("sub", x, graph.reduce("sum", x))
    assert text(graph.slice_node(normal, 2, 3)) == "sub(state0[2:5], sum(state0[0:8]))"


def test_a_slice_may_span_segments(graph: Graph) -> None:
    row = (
        Segment(graph.leaf("state", 0, width=4), 4),
        Segment(graph.constant(7), 3),
        Segment(graph.leaf("state", 1, width=2), 2),
    )
    actual = graph.slice_row(row, 2, 6)
    assert [(text(segment.node), segment.width) for segment in actual] == [
        ("state0[2:4]", 2),
        ("7.0", 3),
        ("state1[0:1]", 1),
    ]
    assert row_width(actual) == 6


def test_concatenation_merges_adjacent_slices(graph: Graph) -> None:
    x = graph.leaf("product", 3, width=9)
    parts = [segment for offset in (0, 3, 6) for segment in graph.slice_row((Segment(x, 9),), offset, 3)]
    assert graph.concatenate(parts) == (Segment(x, 9),)
    assert len(graph.concatenate(parts[::-1])) == 3
    assert len(graph.concatenate([parts[0], parts[2]])) == 2
    assert len(graph.concatenate([Segment(graph.constant(1), 2), Segment(graph.constant(1), 2)])) == 2


def test_elementwise_splits_rows_at_all_segment_borders(graph: Graph) -> None:
    left = (Segment(graph.leaf("state", 0, width=2), 2), Segment(graph.leaf("state", 1, width=4), 4))
    right = (Segment(graph.leaf("projected", "", width=5), 5), Segment(graph.constant(0), 1))
    actual = graph.elementwise("add", left, right)
    assert [(text(node), size) for node, size in actual] == [
        ("add(state0[0:2], projected[0:2])", 2),
        ("add(state1[0:3], projected[2:5])", 3),
        ("state1[3:4]", 1),
    ]


def test_elementwise_broadcasts_scalars(graph: Graph) -> None:
    row = (Segment(graph.leaf("state", 0, width=4), 4),)
    single = (Segment(graph.leaf("parameter", "scale", width=1), 1),)
    ((node, size),) = graph.elementwise("mul", row, single)
    assert (text(node), size, node.width) == ("mul(state0[0:4], parameterscale[0:1])", 4, 4)


def test_topological_order(graph: Graph) -> None:
    x = graph.leaf("state", 0, width=4)
    y = graph.apply("tanh", x)
    z = graph.apply("add", graph.apply("mul", y, y), x)
    order = topological_order([z, y])
    assert len(order) == len(set(order)) == 4
    for node in order:
        assert all(order.index(argument) < order.index(node) for argument in node.arguments)


def test_a_constant_has_no_source(graph: Graph) -> None:
    with pytest.raises(ValueError, match="constant has no source"):
        _ = graph.constant(1).source
