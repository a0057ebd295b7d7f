"""A network unrolled over the time steps of one input: a node for each layer and step, and what each of them reads."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn

from seqloom.insight.model_parts import ModelPart, anatomy
from seqloom.layers.layer import Layer

Flow = Literal["forward", "backward", "attention", "causal_attention", "window", "step"]
"""Along time, a layer reads its own last state, its next one, all steps below, all until now, a window, or nothing."""
Edge = Literal["input", "forward", "backward", "attention", "memory", "skip", "state", "output", "chain"]

OTHER_SEQUENCES = (".pretrained.", ".characters.")
"""Layers that read other sequences: characters of a word, or the input of another model."""
UNCHANGED = ("Norm", "Positions", "Normalize")
"""Layers that neither mix time steps nor change what a step means."""
START = "<s>"


@dataclass(frozen=True)
class UnrolledLayer:
    """A layer with a node for each of its time steps."""

    name: str  # as in named_modules
    kind: str  # such as "LSTM"
    sequence: str  # "encoder", "decoder", or empty if the model has one
    level: int  # from 1; layers of one level read the same
    flow: Flow
    steps: int
    size: int  # width of the output
    window: int = 1  # steps that a convolution reads
    reads_memory: bool = False  # attends to the output of the encoder
    connection: str = "plain"  # residual, highway or dense: its input is also passed on beside it


class Node(NamedTuple):
    """A layer, the input (-1) or the output (-2), at a time step of a sequence."""

    sequence: str
    layer: int  # in ``UnrolledNetwork.layers``
    step: int


class GraphEdge(NamedTuple):
    """What a node reads."""

    start: Node
    end: Node
    kind: Edge


INPUT, OUTPUT = -1, -2


@dataclass(frozen=True)
class UnrolledNetwork:
    """The layers of a model for one input, and the names of what goes in and comes out at each step."""

    layers: list[UnrolledLayer]
    inputs: dict[str, list[str]]  # by sequence
    outputs: dict[str, list[str]]  # by sequence; one for all steps if the sequence is pooled
    pooling: str = ""  # last, ends, mean, max or attention: how the steps become one output
    chained: bool = False  # each output depends on the one before, as in a CRF
    bridged: bool = False  # the decoder starts from the last state of the encoder

    def to_dict(self) -> dict[str, Any]:
        """Everything as lists, numbers and strings, with the edges."""
        return {**asdict(self), "edges": [edge._asdict() for edge in self.edges()]}

    def edges(self) -> list[GraphEdge]:
        """Everything that flows between steps and layers."""
        return list(_edges(self))

    def level_rows(self, sequence: str, level: int) -> list[int]:
        """The layers of a level; of level 0, the input."""
        if level == 0:
            return [INPUT] if self.inputs.get(sequence) else []
        return [index for index, layer in enumerate(self.layers) if layer.sequence == sequence and layer.level == level]

    def top_level(self, sequence: str) -> int:
        """The highest level of a sequence."""
        return max((layer.level for layer in self.layers if layer.sequence == sequence), default=0)

    def steps(self, sequence: str, layer: int) -> int:
        """How many nodes a row has."""
        return len(self.inputs[sequence]) if layer == INPUT else self.layers[layer].steps


def unroll(
    model: nn.Module,
    run: Callable[[], Any],  # applies the model to one sequence
    *,
    inputs: Mapping[str, Sequence[str]],  # names of the steps that may be read; the sequences without are numbered
    outputs: Mapping[str, Sequence[str]],
    pooling: str = "",
    chained: bool = False,
) -> UnrolledNetwork:
    """Record which layers a call runs over how many steps; results are not changed by it."""
    steps: dict[str, int] = {}
    modules = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, Layer)
        and not any(isinstance(part, Layer) for part in list(layer.modules())[1:])
        and not any(other in f".{name}." for other in OTHER_SEQUENCES)
        and type(layer).__name__ not in UNCHANGED
    }

    def recorder(name: str) -> Any:
        def record(_: nn.Module, args: tuple[Any, ...]) -> None:
            x = args[0] if args else None
            if isinstance(x, Tensor) and x.dim() == 3 and len(x) == 1 and x.shape[1]:
                steps[name] = max(steps.get(name, 0), x.shape[1])

        return record

    with ExitStack() as stack:
        for name, layer in modules.items():
            stack.callback(layer.register_forward_pre_hook(recorder(name)).remove)
        run()
    parts = {part.path: part for _, part in anatomy(model).walk()}
    has_decoder = any(name.startswith("decoder.") for name in steps)
    layers: list[UnrolledLayer] = []
    levels: dict[tuple[str, str], int] = {}
    for name in (name for name in modules if name in steps):
        sequence = ("decoder" if name.startswith("decoder.") else "encoder") if has_decoder else ""
        place = name.replace("backward_layer", "forward_layer")  # both directions are one level
        before = [level for (known, _), level in levels.items() if known == sequence]
        level = levels.setdefault((sequence, place), max(before, default=0) + 1)
        layers.append(_layer(modules[name], name, sequence, level, steps[name], parts.get(name), model))
    lengths = {
        sequence: next(layer.steps for layer in layers if layer.sequence == sequence)
        for sequence in dict.fromkeys(layer.sequence for layer in layers)
    }
    names = {
        sequence: list(inputs.get(sequence, ()))
        if len(inputs.get(sequence, ())) == length
        else [str(step) for step in range(1, length + 1)]
        for sequence, length in lengths.items()
    }
    results = {sequence: list(values) for sequence, values in outputs.items() if sequence in lengths}
    bridged = any(type(part).__name__ == "BridgedLayer" for part in model.modules())
    return UnrolledNetwork(layers, names, results, pooling=pooling, chained=chained, bridged=bridged)


def _layer(
    layer: Layer, name: str, sequence: str, level: int, steps: int, part: ModelPart | None, model: nn.Module
) -> UnrolledLayer:
    kind = (part.kind if part else type(layer).__name__).removesuffix(" (backward)")
    connection = "plain"
    place = name
    while place and connection == "plain":
        place = place.rpartition(".")[0]
        declared = getattr(model.get_submodule(place), "connection", "plain")
        connection = declared if isinstance(declared, str) else "plain"
    is_backward = bool(getattr(layer, "reverse", False)) or "backward_layer" in name.split(".")
    flow: Flow = "step"
    if hasattr(layer, "cell"):
        flow = "backward" if is_backward else "forward"
    elif hasattr(layer, "heads"):
        flow = "causal_attention" if getattr(layer, "causal", False) else "attention"
    elif getattr(layer, "window", 1) > 1:
        flow = "window"
    return UnrolledLayer(
        name=name,
        kind=kind,
        sequence=sequence,
        level=level,
        flow=flow,
        steps=steps,
        size=layer.output_size,
        window=getattr(layer, "window", 1),
        reads_memory=sequence == "decoder" and bool(getattr(layer, "memory_size", 0) or hasattr(layer, "attention")),
        connection=connection,
    )


def _edges(network: UnrolledNetwork) -> Iterator[GraphEdge]:
    for index, layer in enumerate(network.layers):
        sequence = layer.sequence
        nodes = [Node(sequence, index, step) for step in range(layer.steps)]
        for below in network.level_rows(sequence, layer.level - 1):
            if not _reads(network, index, below):
                continue
            length = network.steps(sequence, below)
            for node in nodes:
                for step in _read_steps(layer, node.step, length):
                    is_attention = layer.flow.endswith("attention") and step != node.step
                    yield GraphEdge(Node(sequence, below, step), node, "attention" if is_attention else "input")
                if layer.connection != "plain" and length == layer.steps and below != INPUT:
                    yield GraphEdge(Node(sequence, below, node.step), node, "skip")
        if layer.flow == "forward":
            yield from (GraphEdge(nodes[step], nodes[step + 1], "forward") for step in range(layer.steps - 1))
        if layer.flow == "backward":
            yield from (GraphEdge(nodes[step + 1], nodes[step], "backward") for step in range(layer.steps - 1))
    yield from _memory_edges(network)
    yield from _output_edges(network)


def _memory_edges(network: UnrolledNetwork) -> Iterator[GraphEdge]:
    """What a decoder reads from the encoder: all of its outputs by attention, and its last state at the start."""
    for top in network.level_rows("encoder", network.top_level("encoder")):
        encoder = network.layers[top]
        for index, layer in enumerate(network.layers):
            if layer.reads_memory:
                for step in range(layer.steps):
                    for source in range(encoder.steps):
                        yield GraphEdge(Node("encoder", top, source), Node("decoder", index, step), "memory")
        last = Node("encoder", top, 0 if encoder.flow == "backward" else encoder.steps - 1)
        for index in network.level_rows("decoder", 1) if network.bridged else ():
            yield GraphEdge(last, Node("decoder", index, 0), "state")


def _reads(network: UnrolledNetwork, index: int, below: int) -> bool:
    """Whether a layer reads one below it: stacks of one direction read their own direction only."""
    if below == INPUT:
        return True
    ways = [name for name in ("forward_layer", "backward_layer") if f".{name}." in f".{network.layers[index].name}"]
    own, other = network.layers[index].name.split("."), network.layers[below].name.split(".")
    return not ways or own[-1] in ("forward_layer", "backward_layer") or ways[0] in other


def _read_steps(layer: UnrolledLayer, step: int, length: int) -> Sequence[int]:
    """The steps below that a node reads."""
    if layer.flow == "attention":
        return range(length)
    if layer.flow == "causal_attention":
        return range(min(step + 1, length))
    if layer.flow == "window":
        first = step - layer.window // 2
        return range(max(first, 0), min(first + layer.window, length))
    first = step * length // layer.steps  # several, if time is reduced
    return range(first, max((step + 1) * length // layer.steps, first + 1))


def _output_edges(network: UnrolledNetwork) -> Iterator[GraphEdge]:
    for sequence, outputs in network.outputs.items():
        for top in network.level_rows(sequence, network.top_level(sequence)):
            layer = network.layers[top]
            last = 0 if layer.flow == "backward" else layer.steps - 1
            if network.pooling:
                steps = [last] if network.pooling in ("last", "ends") else range(layer.steps)
                for step in steps:
                    yield GraphEdge(Node(sequence, top, step), Node(sequence, OUTPUT, 0), "output")
            else:
                for step in range(min(layer.steps, len(outputs))):
                    yield GraphEdge(Node(sequence, top, step), Node(sequence, OUTPUT, step), "output")
        if network.chained:
            for step in range(len(outputs) - 1):
                yield GraphEdge(Node(sequence, OUTPUT, step), Node(sequence, OUTPUT, step + 1), "chain")
