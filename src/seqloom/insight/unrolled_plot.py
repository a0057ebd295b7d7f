"""An unrolled network as lectures draw it: time from left to right, layers from below to above."""

from pathlib import Path
from typing import Any

from seqloom.insight.plotting import (
    BLACK,
    BLUE,
    COLOURS,
    GREY,
    ORANGE,
    RED,
    SLATE,
    escape_dollars,
    save_figure,
    titled,
)
from seqloom.insight.token_names import show_whitespace
from seqloom.insight.unrolled import INPUT, OUTPUT, Node, UnrolledLayer, UnrolledNetwork

MAX_STEPS, MAX_STEPS_OF_TWO = 8, 5
"""Time steps that are drawn of a sequence, and of each of two; of more, the first ones."""
COLUMN, LEVEL, BETWEEN = 1.0, 1.15, 1.9  # inches: of a step, of a level, and from the encoder to the decoder
WIDTH, HEIGHT = 0.5, 0.3  # of a node
MARGIN = 1.9  # inches for the names of the layers
GREEN = COLOURS[2]
FLOWS = {
    "forward": BLUE,
    "backward": ORANGE,
    "attention": GREEN,
    "causal_attention": GREEN,
    "window": GREEN,
    "step": GREY,
}
EDGES = {
    "forward": (BLUE, 1.5),
    "backward": (ORANGE, 1.5),
    "chain": (RED, 1.3),
    "skip": (GREY, 0.9),
    "state": (BLUE, 1.1),
}
MAX_LABEL = 10


def draw_unrolled(network: UnrolledNetwork, path: str | Path) -> None:
    """Draw the first steps of a network; thin lines are attention."""
    from matplotlib.figure import Figure

    places = _Places(network)
    width, height = places.width + MARGIN + 0.3, places.height + 1.1
    figure = Figure(figsize=(max(width, 5.0), height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(-MARGIN, max(width, 5.0) - MARGIN)
    axes.set_ylim(-0.55, height - 0.55)
    axes.axis("off")
    for edge in network.edges():
        start = places.shown(edge.start) if edge.kind == "state" else edge.start
        if places.has(start) and places.has(edge.end):
            is_example = edge.end.step == places.limit // 2
            _draw_edge(axes, edge.kind, places.of(start), places.of(edge.end), strong=is_example)
    for index, layer in enumerate(network.layers):
        for step in range(layer.steps):
            node = Node(layer.sequence, index, step)
            if places.has(node):
                _draw_node(axes, places.of(node), layer)
    for sequence, names in network.inputs.items():
        _draw_names(axes, places, Node(sequence, INPUT, 0), names, colour=BLACK)
    for sequence, names in network.outputs.items():
        _draw_names(axes, places, Node(sequence, OUTPUT, 0), names, colour=RED)
    _draw_row_names(axes, places, network)
    title = escape_dollars(titled("unrolled over time"))
    axes.text(-MARGIN + 0.12, height - 0.65, title, fontsize=11, fontweight="bold", color=BLACK, va="top")
    save_figure(figure, path)


class _Places:
    """Where each node is drawn, in inches."""

    def __init__(self, network: UnrolledNetwork) -> None:
        self._network = network
        self.limit = MAX_STEPS if len(network.inputs) == 1 else MAX_STEPS_OF_TWO
        self._lengths = {
            sequence: max([min(len(names), self.limit), *(1 for _ in network.outputs.get(sequence, [])[:1])])
            for sequence, names in network.inputs.items()
        }
        self._left: dict[str, float] = {}
        x = 0.0
        for sequence, length in self._lengths.items():
            self._left[sequence] = x
            x += COLUMN * length + BETWEEN
        self.width = x - BETWEEN
        self.height = LEVEL * (max(map(network.top_level, self._lengths), default=0) + 1)

    def has(self, node: Node) -> bool:
        """Whether a node is among those that are drawn."""
        return node.step < self._steps(node)

    def shown(self, node: Node) -> Node:
        """The node, or the last one of its row that is drawn."""
        return node._replace(step=min(node.step, self._steps(node) - 1))

    def _steps(self, node: Node) -> int:
        if node.layer in (INPUT, OUTPUT):
            names = self._network.inputs if node.layer == INPUT else self._network.outputs
            return min(len(names.get(node.sequence, [])), self._lengths[node.sequence])
        whole, own = len(self._network.inputs[node.sequence]), self._network.layers[node.layer].steps
        return min(own, max(self._lengths[node.sequence] * own // max(whole, 1), 1))

    def of(self, node: Node) -> tuple[float, float]:
        network, sequence = self._network, node.sequence
        top = network.top_level(sequence)
        shown = self._steps(node)
        length = self._lengths[sequence]
        if node.layer == OUTPUT and network.pooling:
            return self._left[sequence] + COLUMN * length / 2, LEVEL * (top + 1)
        x = self._left[sequence] + COLUMN * length * (node.step + 0.5) / max(shown, 1)
        if node.layer == INPUT:
            return x, 0.0
        if node.layer == OUTPUT:
            return x, LEVEL * (top + 1)
        layer = network.layers[node.layer]
        is_pair = len(network.level_rows(sequence, layer.level)) > 1
        aside = (0.24 if layer.flow == "backward" else -0.24) if is_pair else 0.0
        above = 0.42 if is_pair and layer.flow == "backward" else 0.0
        return x + aside, LEVEL * layer.level + above - (0.21 if is_pair else 0.0)


def _draw_node(axes: Any, place: tuple[float, float], layer: UnrolledLayer) -> None:
    from matplotlib.patches import FancyBboxPatch

    x, y = place
    corner = "round,pad=0,rounding_size=0.05"
    width = WIDTH
    box = (x - width / 2, y - HEIGHT / 2)
    axes.add_patch(
        FancyBboxPatch(box, width, HEIGHT, boxstyle=corner, facecolor="white", edgecolor=SLATE, linewidth=0.9, zorder=3)
    )
    colour = FLOWS[layer.flow]
    axes.add_patch(
        FancyBboxPatch(box, width, HEIGHT, boxstyle=corner, facecolor=colour, alpha=0.22, edgecolor="none", zorder=4)
    )
    axes.text(x, y - 0.01, _short_kind(layer.kind), fontsize=7, color=BLACK, ha="center", va="center", zorder=5)


def _short_kind(kind: str) -> str:
    """A kind that fits into a node: its first word, or the initials of several."""
    words = kind.partition(" (")[0].split()
    if len(words) > 1:
        return {"Transformer": "block"}.get(words[0], words[0])[:8]
    return kind[:8]


def _draw_edge(
    axes: Any,
    kind: str,
    start: tuple[float, float],
    end: tuple[float, float],
    *,
    strong: bool,  # of attention, the lines of one step stand out
) -> None:
    if kind in ("attention", "memory"):
        colour = GREEN if kind == "attention" else RED
        alpha, width = (0.8, 1.0) if strong else (0.16, 0.6)
        axes.plot(*zip(start, end, strict=True), color=colour, linewidth=width, alpha=alpha, zorder=1)
        return
    colour, width = EDGES.get(kind, (SLATE, 0.9))
    curve = "arc3,rad=0.45" if kind == "skip" else "arc3"
    style = {
        "arrowstyle": "-|>",
        "color": colour,
        "linewidth": width,
        "linestyle": "--" if kind == "skip" else "-",
        "mutation_scale": 8,
        "connectionstyle": curve,
        "shrinkA": 12 if kind != "forward" and kind != "backward" else 18.5,
        "shrinkB": 12 if kind != "forward" and kind != "backward" else 18.5,
    }
    axes.annotate("", xy=end, xytext=start, arrowprops=style, zorder=2)


def _draw_names(axes: Any, places: _Places, first: Node, names: list[str], *, colour: str) -> None:
    for step, name in enumerate(names):
        node = first._replace(step=step)
        if places.has(node):
            shown = show_whitespace(name)
            shown = shown if len(shown) <= MAX_LABEL else f"{shown[: MAX_LABEL - 1]}…"
            x, y = places.of(node)
            size = 9 if len(shown) < 8 else 7.5
            axes.text(x, y, escape_dollars(shown), fontsize=size, color=colour, ha="center", va="center", zorder=5)
    last = first._replace(step=min(len(names), places.limit) - 1)
    if len(names) > places.limit and places.has(last):
        x, y = places.of(last)
        axes.text(x + 0.45 * COLUMN, y, f"… {len(names)}", fontsize=8, color=GREY, ha="left", va="center")


def _draw_row_names(axes: Any, places: _Places, network: UnrolledNetwork) -> None:
    """The kind and width of each layer, left of its first node; of a decoder, right of its last one."""
    for index, layer in enumerate(network.layers):
        node = Node(layer.sequence, index, 0)
        flow = {"forward": "→", "backward": "←"}.get(layer.flow, "")
        extra = f", {layer.connection}" if layer.connection != "plain" else ""
        text = f"{layer.kind} {flow} {layer.size:,}{extra}".replace("  ", " ")
        _, y = places.of(node)
        if layer.sequence == "decoder":
            x, _ = places.of(Node("decoder", INPUT, 0))
            box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1}
            axes.text(x - 0.33, y + 0.2, text, fontsize=7.5, color=SLATE, ha="right", va="center", zorder=5, bbox=box)
        else:
            axes.text(-MARGIN + 0.12, y, text, fontsize=8, color=SLATE, ha="left", va="center")
    sequences = [sequence for sequence in network.inputs if sequence]
    for sequence in sequences:
        x, y = places.of(Node(sequence, INPUT, 0))
        axes.text(x - 0.42, y - 0.32, sequence, fontsize=8, color=GREY, ha="left", va="center")
    if not sequences:
        axes.text(-MARGIN + 0.12, 0, "input", fontsize=8, color=GREY, ha="left", va="center")
    for sequence in network.outputs:
        if sequence != "decoder":
            _, y = places.of(Node(sequence, OUTPUT, 0))
            name = f"output ({network.pooling} pooling)" if network.pooling else "output"
            axes.text(-MARGIN + 0.12, y, name, fontsize=8, color=GREY, ha="left", va="center")
