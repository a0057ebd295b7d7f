"""What a kernel gets: its table of arguments, and the layout of each part's own memory."""

from seqloom.kernels import gemm
from seqloom.kernels.plan import Plan
from seqloom.kernels.schedule import Schedule, direct

COMMON = (
    "batch",
    "direction",  # 1 or −1 in time
    "steps",
    "rows",  # the most that a part has
    "chunk",  # steps whose input is projected, or whose gradients are multiplied, at once
    "order",  # of each slot its row in the batch
    "first",  # the time of its first step
    "lengths",  # and its number of steps
    "slots",  # where each part's slots begin
    "active",  # (parts, steps + 1) how many of its rows still run at a step; at last 0
    "before",  # (parts, steps + 1) how many it has run before that step
    "scratch",
    "scratch_bytes",  # of one part
    "sums",  # addresses of each part's
    "barrier",  # a counter where a team meets
)

INPUT = ("x", "x_time", "x_row")
"""The input and the distances of neighbours in time and in the batch."""


def arguments(plan: Plan, kind: str) -> tuple[str, ...]:
    """Names of a kernel's arguments in their order; kind is forward, training or backward."""
    states = range(len(plan.program.state))
    backward = kind == "backward"
    names = [*COMMON, *[f"packed {index}" for index in products(plan, kind)]]
    names += [f"parameter {name}" for name in plan.program.parameter_gradient]
    names += [f"initial {index}" for index in states]
    names += [*INPUT, "packed input"] if plan.linear else [] if backward else ["projected"]
    if kind != "forward":
        names += ["saved", *[f"sequence {index}" for index in states]]
    if not backward:
        names += ["dot", *[f"matrix {index}" for index in plan.forward_products], "matrix input"]
        return (*names, *(["sequence 0"] if kind == "forward" else []), *[f"final {index}" for index in states])
    names += ["x_gradient", "x_gradient_time", "x_gradient_row"] if plan.linear else ["projected_gradient"]
    names += ["out_gradient", *[f"final_gradient {index}" for index in states]]
    return (*names, *[f"initial_gradient {index}" for index in states])


def products(plan: Plan, kind: str) -> list[int]:
    return plan.backward_products if kind == "backward" else plan.forward_products


Block = tuple[str, str | int]


class Layout:
    """A part's own memory, in elements.

    Blocks of a row for each row of the part, then blocks of a row for each row and step of a chunk, then a chunk's
    packed factor. Elsewhere, sums for vector gradients and then for matrix gradients.
    """

    def __init__(self, plan: Plan, kind: str, real: str) -> None:
        program = plan.program
        schedule: Schedule = getattr(plan, kind)
        self.lanes = gemm.lanes(real)
        self.strides: dict[Block, int] = {}
        self.starts: dict[Block, int] = {}
        self.sums: list[int] = []  # where each matrix gradient begins
        self.sum = self.row = self.step = self.packed = 0
        if kind == "backward":
            self.sum = self._round(plan.column_width)
            for deferred in plan.deferred:
                stride = gemm.panel(real) * gemm.panels(real, deferred.right.size)
                self.sums.append(self.sum)
                self.sum += stride * deferred.left.size
                self.packed = max(self.packed, stride)
        for turn in (0, 1):
            for index, size in enumerate(program.state):
                self._add_row((f"state{turn}", index), size)
        for index in products(plan, kind):
            if direct(program, index) is None and index not in plan.operands:
                self._add_row(("operand", index), sum(segment.width for segment in program.products[index].operand))
            self._add_row(("product", index), gemm.panel(real) * gemm.panels(real, program.products[index].size))
        self._add_row(("temporary", ""), schedule.temporary_width)
        if plan.linear:
            self._add_step(("input", ""), plan.input)
            padded = program.projected if kind != "backward" else plan.input
            name = "projected" if kind != "backward" else "input_gradient"
            self._add_step((name, ""), gemm.panel(real) * gemm.panels(real, padded))
        if kind == "backward":
            for index, size in plan.factors.items():
                self._add_step(("factor", index), size)

    def _round(self, size: int) -> int:
        return -(-size // self.lanes) * self.lanes

    def _add_row(self, name: Block, size: int) -> None:
        # One vector more than needed: rows a multiple of 4096 bytes apart would share one set of the cache.
        self.strides[name] = self._round(size) + self.lanes
        self.starts[name] = self.row
        self.row += self.strides[name]

    def _add_step(self, name: Block, size: int) -> None:
        self.strides[name] = self._round(size) + self.lanes
        self.starts[name] = self.step
        self.step += self.strides[name]

    def size(self, rows: int, chunk: int) -> int:
        """Elements of one part with so many rows and steps at once."""
        return rows * (self.row + chunk * (self.step + self.packed)) + self.lanes
