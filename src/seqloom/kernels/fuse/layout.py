"""The argument table of a kernel, and the layout of the scratch memory of each part of the batch."""

from typing import Literal, NamedTuple

from seqloom.kernels.fuse.plan import Plan
from seqloom.kernels.fuse.schedule import Schedule, unchanged_state
from seqloom.kernels.fuse.symbols import Product
from seqloom.kernels.linalg import bfloat16_packing, gemm, quantized_gemm

COMMON_ARGUMENTS = (
    "batch",
    "direction",  # 1 or −1 in time
    "steps",
    "max_rows",
    "chunk",  # steps whose input is projected, or whose gradients are multiplied, at once
    "order",
    "first_time",
    "lengths",
    "part_starts",
    "active",
    "active_before",
    "scratch",
    "scratch_bytes",  # size of the scratch memory of one part
    "sums",  # addresses of the sums of each part
    "barrier",  # counter of the team's barrier
)

FLOAT_BYTES = 4

INPUT_ARGUMENTS = ("x", "x_time", "x_row")
"""The input, and its strides in time and in the batch."""

OUT_STRIDES = ("sequence 0_time", "sequence 0_row")
"""The same of the output in training, where several kernels may write theirs side by side."""


def arguments(plan: Plan, kind: str) -> tuple[str, ...]:
    """The names of a kernel's arguments in order; ``kind`` is forward, training or backward."""
    states = range(len(plan.traced.state_widths))
    backward = kind == "backward"
    names = [*COMMON_ARGUMENTS, *[f"packed {index}" for index, _ in matrix_products(plan, kind)]]
    names += [f"parameter {name}" for name in plan.traced.parameter_gradient]
    names += [f"initial {index}" for index in states]
    names += [*INPUT_ARGUMENTS, "packed input"] if plan.linear else [] if backward else ["projected"]
    if kind != "forward":
        names += ["saved", *[f"sequence {index}" for index in states], *OUT_STRIDES]
    if not backward:
        names += [f"matrix {index}" for index, _ in matrix_products(plan, kind)]  # unpacked, or 0
        names += ["matrix input"] if plan.linear else []
        return (*names, *(["sequence 0"] if kind == "forward" else []), *[f"final {index}" for index in states])
    names += ["x_gradient", "x_gradient_time", "x_gradient_row"] if plan.linear else ["projected_gradient"]
    names += ["out_gradient", "out_gradient_time", "out_gradient_row"]
    names += [f"final_gradient {index}" for index in states]
    return (*names, *[f"initial_gradient {index}" for index in states])


def products(plan: Plan, kind: str) -> list[int]:
    return plan.backward_products if kind == "backward" else plan.forward_products


def matrix_products(plan: Plan, kind: str) -> list[tuple[int, Product]]:
    """The products with a matrix parameter, by their index."""
    indexed = [(index, plan.traced.products[index]) for index in products(plan, kind)]
    return [(index, product) for index, product in indexed if isinstance(product, Product)]


def has_edges(plan: Plan, kind: str, real: str) -> bool:
    """Whether a kernel of training multiplies with a matrix whose last panel has fewer columns than the others."""
    sizes = [product.size for _, product in matrix_products(plan, kind)]
    sizes += [plan.input_size, plan.traced.projected_width] if plan.linear else []
    sizes += [deferred.right.size for deferred in plan.deferred] if kind == "backward" else []
    return any(size % gemm.panel_width(real) for size in sizes)


Block = tuple[str, str | int]


class Rounding(NamedTuple):
    """Which products of a kernel, by their index or "input", multiply rounded numbers, and of which precision."""

    products: frozenset[str] = frozenset()
    precision: Literal["int8", "bfloat16"] = "int8"

    def row_size(self, depth: int) -> int:
        """Floats in whose memory a rounded row fits."""
        if self.precision == "bfloat16":
            return bfloat16_packing.row_bytes(depth) // FLOAT_BYTES
        return quantized_gemm.instructions().row_bytes(depth) // FLOAT_BYTES

    @property
    def defers(self) -> bool:
        """Whether deferred products are rounded, too."""
        return self.precision == "bfloat16" and bool(self.products)


NO_ROUNDING = Rounding()


class ScratchLayout:
    """Scratch memory of one part, in elements.

    First come blocks with one row for each row of the part, then blocks with one row for each row and step of a chunk,
    then the packed sides of a deferred product: the right one, or in bfloat16 both. Products that are rounded have a
    block for their rounded left side. The sums of gradients are a separate allocation: those of vectors, then those of
    matrices.
    """

    def __init__(self, plan: Plan, kind: str, real: str, rounding: Rounding = NO_ROUNDING) -> None:
        traced = plan.traced
        schedule: Schedule = getattr(plan, kind)
        self.lanes = gemm.lanes(real)
        self.strides: dict[Block, int] = {}
        self.starts: dict[Block, int] = {}
        self.sum_starts: list[int] = []  # where the sum of each matrix gradient begins
        self.sum_strides: list[int] = []  # distance of its rows; in bfloat16, these are padded to whole panels
        self.sums_size = self.row_size = self.step_size = self.packed_size = 0
        self.words_per_pair = 0, 0  # of the packed sides of a deferred product in bfloat16
        if kind == "backward":
            self.sums_size = self._round(plan.vector_gradient_width)
            for deferred in plan.deferred:
                stride = gemm.panel_width(real) * gemm.panel_count(real, deferred.right.size)
                self.sum_starts.append(self.sums_size)
                self.sum_strides.append(stride if rounding.defers else deferred.right.size)
                self.sums_size += self._round(self.sum_strides[-1] * deferred.left.size)
                self.packed_size = max(self.packed_size, 0 if rounding.defers else stride)
            if rounding.defers and plan.deferred:
                sides = [[term.left.size for term in plan.deferred], [term.right.size for term in plan.deferred]]
                left, right = (gemm.panel_width(real) * gemm.panel_count(real, max(sizes)) for sizes in sides)
                self.words_per_pair = left, right
        for parity in (0, 1):
            for index, size in enumerate(traced.state_widths):
                self._add_row((f"state{parity}", index), size)
        for index in products(plan, kind):
            if unchanged_state(traced, index) is None and index not in plan.operands:
                self._add_row(("operand", index), sum(segment.width for segment in traced.products[index].operand))
            self._add_row(
                ("product", index), gemm.panel_width(real) * gemm.panel_count(real, traced.products[index].size)
            )
            if str(index) in rounding.products:
                depth = sum(segment.width for segment in traced.products[index].operand)
                self._add_row(("operand_rounded", index), rounding.row_size(depth))
        self._add_row(("temporary", ""), schedule.temporary_width)
        if "input" in rounding.products:
            depth = traced.projected_width if kind == "backward" else plan.input_size
            self._add_step(("input_rounded", ""), rounding.row_size(depth))
        if plan.linear:
            self._add_step(("input", ""), plan.input_size)
            padded = traced.projected_width if kind != "backward" else plan.input_size
            name = "projected" if kind != "backward" else "input_gradient"
            self._add_step((name, ""), gemm.panel_width(real) * gemm.panel_count(real, padded))
        if kind == "backward":
            if traced.passed_width:
                self._add_step(("passed_gradient", ""), traced.passed_width)
            for index, size in plan.factors.items():
                self._add_step(("factor", index), size)

    def _round(self, size: int) -> int:
        return -(-size // self.lanes) * self.lanes

    def _add_row(self, name: Block, size: int) -> None:
        # One vector more than needed: rows at a distance of 4096 bytes would compete for the same cache set.
        self.strides[name] = self._round(size) + self.lanes
        self.starts[name] = self.row_size
        self.row_size += self.strides[name]

    def _add_step(self, name: Block, size: int) -> None:
        self.strides[name] = self._round(size) + self.lanes
        self.starts[name] = self.step_size
        self.step_size += self.strides[name]

    def size(self, rows: int, chunk: int) -> int:
        """Elements of one part with a number of rows and of steps in a chunk."""
        words = sum(self.words_per_pair) * self.packed_pairs(rows * chunk)
        return rows * (self.row_size + chunk * (self.step_size + self.packed_size)) + words + self.lanes

    @staticmethod
    def packed_pairs(rows: int) -> int:
        """Pairs of rows in the memory of packed sides in bfloat16."""
        return bfloat16_packing.packed_words(rows, 1) // bfloat16_packing.WIDTH
