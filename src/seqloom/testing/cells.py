"""The laws of a cell: a pure step, a kernel that equals the plain loop, gradients, and the laws of its layers."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd import gradcheck

from seqloom.cells import LSTM
from seqloom.cells.cell import Cell
from seqloom.layers.layer import count_parameters
from seqloom.layers.recurrent.bidirectional import Bidirectional
from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.testing import layers
from seqloom.testing.certificate import CellReport, GradientComparison, LawChecker, failure, print_report
from seqloom.testing.laws import (
    TOLERANCES,
    Law,
    assert_close,
    make_mask,
    noise,
    randomize,
    require,
    saved,
    tensors,
)
from seqloom.testing.layers import Direction, LayerCase
from seqloom.testing.speed import compare_speed

MakeCell = Callable[[int, int], Cell]  # input size, hidden size
Array = NDArray[np.float64]
Reference = Callable[[Any, Array], tuple[Array, Mapping[str, Array], Mapping[str, Array]]]
"""Cell and x (B, T, D) → outputs (B, T, H), last state by field (B, H), gates by name (B, T, H)."""

LENGTHS = [3, 6, 0, 6, 1]  # of 6 steps


@dataclass(frozen=True)
class CellCase:
    """How to make a cell, and the settings to check it with."""

    make: MakeCell
    name: str
    input_size: int = 3
    hidden_size: int = 5
    dtype: torch.dtype = torch.float64
    training: bool = False
    reverse: bool = False
    require_fused: bool = False
    reference: Reference | None = None

    def cell(self) -> Cell:
        """The cell with random weights."""
        cell = self.make(self.input_size, self.hidden_size)
        require(isinstance(cell, Cell), f"expected a seqloom.Cell, found {type(cell).__name__}")
        randomize(cell, dtype=self.dtype)
        return cell.train(self.training)

    @cached_property  # the laws share it and do not change it: its kernel is made once
    def layer(self) -> Recurrent:
        return Recurrent(self.cell(), reverse=self.reverse).train(self.training)

    def input(self, rows: int, time: int, *, seed: int = 1) -> Tensor:
        return noise(rows, time, self.input_size, seed=seed, dtype=self.dtype)

    def __str__(self) -> str:
        settings = [str(self.dtype).removeprefix("torch."), "training" if self.training else "evaluation"]
        return f"{self.name} [{', '.join(settings + ['backward'] * self.reverse)}]"


def parts_are_named(case: CellCase) -> None:
    """``start`` and ``step`` return the cell's State, batch first, and one value for each name in ``gates``."""
    cell = case.cell()
    sizes = (cell.input_size, cell.hidden_size)
    expected = (case.input_size, case.hidden_size)
    require(sizes == expected, f"input_size, hidden_size: expected {expected}, found {sizes}")
    require(hasattr(cell.State, "_fields"), f"State is {cell.State!r}, expected a NamedTuple class")
    require(len(set(cell.gates)) == len(cell.gates), f"gates has a name twice: {cell.gates}")
    start = cell.start(3)
    require(isinstance(start, cell.State), f"start returned {type(start).__name__}, expected {cell.State.__name__}")
    result: Any = cell.step(cell.project(case.input(3, 1).transpose(0, 1))[0], start)
    require(isinstance(result, tuple) and len(result) == 2, "step returned no pair of State and gates")
    state, gates = result
    require(isinstance(state, cell.State), f"step returned {type(state).__name__}, expected {cell.State.__name__}")
    require(
        len(gates) == len(cell.gates), f"step returned {len(gates)} gates, expected {len(cell.gates)}: {cell.gates}"
    )
    widths = {name: (3, *value.shape[1:]) for name, value in tensors(start).items()}
    widths[f"state.{cell.State._fields[0]}"] = (3, case.hidden_size)
    actual = tensors(state)
    for name, value in [*tensors(start).items(), *actual.items()]:
        require(
            tuple(value.shape) == widths[name] and value.dtype == case.dtype,
            f"{name}: expected {case.dtype} {widths[name]}, found {value.dtype} {tuple(value.shape)}",
        )
    for name, gate in zip(cell.gates, gates, strict=True):
        require(len(gate) == 3, f"gate {name}: expected 3 rows (batch first), found shape {tuple(gate.shape)}")


def every_row_starts_alike(case: CellCase) -> None:
    """All rows of a batch begin with the same finite state, whatever the size of the batch."""
    cell = case.cell()
    one, many = tensors(cell.start(1)), tensors(cell.start(3))
    require(
        all(bool(value.isfinite().all()) for value in one.values()), "the state before the first step is not finite"
    )
    assert_close(many, {name: value.expand(3, *value.shape[1:]) for name, value in one.items()}, tolerance=0)


def step_is_pure(case: CellCase) -> None:
    """``step`` depends on its arguments and the parameters only, and changes nothing: no randomness, no memory."""
    cell = case.cell()
    before = {name: value.clone() for name, value in cell.state_dict().items()}
    projected = cell.project(case.input(2, 1).transpose(0, 1))[0].detach()
    state = random_state(cell, 2, case.dtype)
    arguments = {"projected": projected.clone(), **{name: value.clone() for name, value in tensors(state).items()}}
    rng_state = torch.get_rng_state()
    results = []
    for _ in range(2):
        next_state, gates = cell.step(projected, state)
        results.append({**tensors(next_state), **dict(zip(cell.gates, gates, strict=True))})
    require(torch.equal(rng_state, torch.get_rng_state()), "step draws random numbers; draw them in project")
    assert_close(*results, tolerance=0)
    assert_close({"projected": projected, **tensors(state)}, arguments, tolerance=0)
    assert_close(dict(cell.state_dict()), before, tolerance=0)


def outputs_follow_the_steps(case: CellCase) -> None:
    """The layer's outputs and last state are those of ``step``, row by row and one step after the other."""
    layer, x = case.layer, case.input(3, 6)
    lengths = [6, 2, 0]
    outputs, final = layer(x, make_mask(lengths, 6))
    for row, length in enumerate(lengths):
        cell, state, steps = layer.cell, layer.cell.start(1), []
        projected_steps = list(cell.project(x[row : row + 1, :length].transpose(0, 1)))
        for projected in projected_steps[::-1] if case.reverse else projected_steps:
            state, _ = cell.step(projected, state)
            steps.append(state[0])
        name, own = f"outputs of row {row}", outputs[row : row + 1, :length]
        expected = torch.stack(steps[::-1] if case.reverse else steps, dim=1) if steps else own
        assert_close(
            {name: own, **_row(final, row)}, {name: expected, **tensors(state)}, tolerance=TOLERANCES[case.dtype]
        )


def equations_hold(case: CellCase) -> None:
    """Outputs, last state and gates equal those of the reference implementation."""
    reference = case.reference
    if reference is None:
        raise ValueError("the case has no reference implementation")
    layer, x = case.layer, case.input(4, 12)
    outputs, state = layer(x)
    reference_outputs, last, gates = reference(layer.cell, x.double().numpy())
    cell, current, seen = layer.cell, layer.cell.start(4), []
    for projected in cell.project(x.transpose(0, 1)):
        current, values = cell.step(projected, current)
        seen.append(values)
    stacked = {name: torch.stack([values[index] for values in seen], dim=1) for index, name in enumerate(cell.gates)}
    require(set(gates) == set(cell.gates), f"the reference has gates {sorted(gates)}, expected {sorted(cell.gates)}")
    actual = {"outputs": outputs, **tensors(state), **{f"gate {name}": value for name, value in stacked.items()}}
    expected = {
        "outputs": reference_outputs,
        **{f"state.{field}": last[field] for field in cell.State._fields},
        **{f"gate {name}": gates[name] for name in cell.gates},
    }
    assert_close(
        {name: value.double() for name, value in actual.items()},
        {name: torch.from_numpy(np.asarray(value, dtype=np.float64)) for name, value in expected.items()},
        tolerance=TOLERANCES[case.dtype],
    )


def kernel_equals_the_loop(case: CellCase) -> None:
    """The fused kernel equals the plain loop over ``step``: outputs, state and all gradients."""
    layer = case.layer
    if layer.path != "fused":
        require(not case.require_fused, f"the cell has no fused kernel ({layer.path})")
        return
    compare_kernel_with_loop(layer, rows=len(LENGTHS), time=6, lengths=LENGTHS)


def compare_kernel_with_loop(
    layer: Recurrent,
    *,
    rows: int,
    time: int,
    lengths: list[int] | None = None,  # of the rows; the padding holds NaN
    threads: int = 1,  # of the kernel
) -> None:
    """Raise an AssertionError unless kernel and loop agree on outputs, state and all gradients."""
    dtype = next(layer.parameters()).dtype
    x = noise(rows, time, layer.input_size, seed=1, dtype=dtype)
    mask = None if lengths is None else make_mask(lengths, time)
    if mask is not None:
        x = x.masked_fill(~mask.unsqueeze(-1), torch.nan)
    x.requires_grad_()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    actual = _outcome(layer, x, mask)
    torch.set_num_threads(before)
    with plain(layer):
        expected = _outcome(layer, x, mask)
    assert_close(actual, expected, tolerance=TOLERANCES[dtype])


def kernel_equals_the_loop_without_gradients(case: CellCase) -> None:
    """Where no gradients are recorded, single steps and short sequences equal the plain loop, too."""
    layer = case.layer
    for rows, time in ((1, 1), (3, 1), (1, 3), (5, 6)):
        x, state = case.input(rows, time), random_state(layer.cell, rows, case.dtype)
        results = []
        for mode in (torch.no_grad, torch.inference_mode):
            with mode(), _seeded():
                outputs, final = layer(x, None, state)
            results.append({f"outputs ({rows} rows, {time} steps)": outputs, **tensors(final)})
        with plain(layer), _seeded():
            outputs, final = layer(x, None, state)
        expected = {f"outputs ({rows} rows, {time} steps)": outputs.detach(), **tensors(final)}
        assert_close(results[0], results[1], tolerance=0)
        assert_close(results[0], expected, tolerance=TOLERANCES[case.dtype])


def gradients_equal_finite_differences(case: CellCase) -> None:
    """The gradients, by the kernel and by the plain loop, equal those by finite differences (float64)."""
    layer = (case if case.dtype == torch.float64 else replace(case, dtype=torch.float64)).layer
    mask = make_mask([3, 1], 3)
    x = noise(2, 3, case.input_size, seed=1).masked_fill(~mask.unsqueeze(-1), 0).requires_grad_()
    state = random_state(layer.cell, 2, torch.float64)

    def function(x: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        with _seeded():
            outputs, final = layer(x, mask, type(state)(*values[: len(state)]))
        return (outputs, *final)

    arguments = (x, *[field.requires_grad_() for field in state], *layer.parameters())
    for path, mode in (("kernel", nullcontext()), ("plain loop", plain(layer))):
        with mode:
            try:
                gradcheck(function, arguments, fast_mode=True)
            except RuntimeError as error:
                mismatch = " ".join(str(error).partition("The above quantities")[0].split())
                raise AssertionError(f"by the {path}: {mismatch}") from error


def gradients_reach_every_parameter(case: CellCase) -> None:
    """Every parameter and the input get a gradient that is finite and not zero everywhere."""
    layer, x = case.layer, case.input(3, 4).requires_grad_()
    variables = {"x": x, **dict(layer.cell.named_parameters())}
    with _seeded():
        loss = layer(x)[0].square().sum()
    for name, gradient in zip(
        variables, torch.autograd.grad(loss, list(variables.values()), allow_unused=True), strict=True
    ):
        if gradient is None:
            raise AssertionError(f"{name} has no gradient")
        require(bool(gradient.isfinite().all()), f"the gradient of {name} is not finite")
        require(bool(gradient.any()), f"the gradient of {name} is zero everywhere")


def saved_weights_restore_the_cell(case: CellCase) -> None:
    """A new cell with the saved weights gives the same outputs, bit for bit."""
    layer, x = case.layer, case.input(2, 4)
    other = case.make(case.input_size, case.hidden_size).to(case.dtype)
    other.load_state_dict(saved(layer.cell))
    with _seeded():
        expected = layer(x)[0]
    with _seeded():
        actual = Recurrent(other, reverse=case.reverse).train(case.training)(x)[0]
    assert_close({"outputs": actual}, {"outputs": expected}, tolerance=0)


def carry_is_the_direct_path(case: CellCase) -> None:
    """The gate that ``carry`` or ``write`` names is how the old output enters the new one directly."""
    cell = case.cell()
    for name, gate in (("carry", cell.carry), ("write", cell.write)):
        require(gate is None or gate in cell.gates, f"{name} is {gate!r}, expected one of {', '.join(cell.gates)}")
    actual, gates = direct_path(cell, case.input(2, 1))
    expected = cell.carried(gates)
    if expected is None:
        raise ValueError("the cell declares neither carry nor write")
    assert_close({"∂h'/∂h": actual}, {"∂h'/∂h": expected.detach()}, tolerance=TOLERANCES[case.dtype])


def direct_path(cell: Cell, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
    """∂h'/∂h of one step where all parameters but those of the input are zero, and the gates of that step."""
    cell = copy.deepcopy(cell)
    cells = [
        part
        for part in cell.modules()
        if isinstance(part, Cell) and isinstance(getattr(part, "input", None), nn.Module)
    ]
    inputs = {id(value) for part in cells for value in part.input.parameters()}
    with torch.no_grad():
        for parameter in cell.parameters():
            if id(parameter) not in inputs:
                parameter.zero_()
    state = cell.start(len(x))
    hidden = noise(*state[0].shape, dtype=x.dtype).requires_grad_()
    next_state, gates = cell.step(cell.project(x.transpose(0, 1))[0], type(state)(hidden, *state[1:]))
    (gradient,) = torch.autograd.grad(next_state[0].sum(), hidden, allow_unused=True, materialize_grads=True)
    return gradient, gates


@contextmanager
def plain(layer: Recurrent) -> Iterator[None]:
    """Run the plain loop instead of the kernel."""
    layer.fused = False
    try:
        yield
    finally:
        layer.fused = True


@contextmanager
def _seeded() -> Iterator[None]:
    """The same random numbers in every call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def random_state(cell: Cell, rows: int, dtype: torch.dtype) -> Any:
    start = cell.start(rows)
    fields = [0.5 * noise(*field.shape, seed=2 + index, dtype=dtype) for index, field in enumerate(start)]
    return type(start)(*fields)


def _row(state: Any, row: int) -> dict[str, Tensor]:
    return {name: value[row : row + 1] for name, value in tensors(state).items()}


def _outcome(layer: Recurrent, x: Tensor, mask: Tensor | None) -> dict[str, Tensor]:
    """Outputs, final state, and the gradient of all of them, weighted at random, for each source."""
    state = random_state(layer.cell, len(x), x.dtype)
    fields = {name: value.requires_grad_() for name, value in state._asdict().items()}
    sources = {"x": x, **{f"first {name}": value for name, value in fields.items()}, **dict(layer.named_parameters())}
    with _seeded():
        outputs, final = layer(x, mask, state)
    results = {"outputs": outputs, **tensors(final)}
    weighted = [
        (value * noise(*value.shape, seed=seed, dtype=value.dtype)).sum() for seed, value in enumerate(results.values())
    ]
    gradients = torch.autograd.grad(
        torch.stack(weighted).sum(), list(sources.values()), allow_unused=True, materialize_grads=True
    )
    named_gradients = {f"gradient of {name}": gradient for name, gradient in zip(sources, gradients, strict=True)}
    return {name: value.detach() for name, value in (results | named_gradients).items()}


FOUNDATION: tuple[Law, ...] = (parts_are_named, every_row_starts_alike, step_is_pure)
"""Laws that all others build on."""
LAWS: tuple[Law, ...] = (
    parts_are_named,
    every_row_starts_alike,
    step_is_pure,
    outputs_follow_the_steps,
    kernel_equals_the_loop,
    kernel_equals_the_loop_without_gradients,
    gradients_equal_finite_differences,
    gradients_reach_every_parameter,
    saved_weights_restore_the_cell,
)


def laws_for(case: CellCase) -> tuple[Law, ...]:
    laws = LAWS
    cell = case.make(case.input_size, case.hidden_size)
    if cell.carry is not None or cell.write is not None:
        laws += (carry_is_the_direct_path,)
    return laws if case.reference is None else (equations_hold, *laws)


def check_cell(
    cell: MakeCell,  # the class of a cell, or a function (input size, hidden size) → cell
    *,
    input_size: int = 3,
    hidden_size: int = 5,
    require_fused: bool = False,
    reference: Reference | None = None,
    speed: bool = False,  # also measure its speed beside our LSTM, which takes a few seconds
    quiet: bool = False,  # print nothing
) -> CellReport:
    """Check that a cell keeps the contract, and print what holds; raise an AssertionError that names the broken law.

    It is checked with random weights in float64 and float32, in training and in evaluation, by itself and inside of
    recurrent layers that read forward, backward and in both directions. A cell whose step cannot be fused runs step by
    step; with ``require_fused`` that is an error. ``reference`` is an independent implementation, for example in NumPy:
    it gets the cell and x (B, T, D), and returns the outputs, the last state by field and the gates by name.
    """
    name = getattr(cell, "__name__", repr(cell))
    settings = {"input_size": input_size, "hidden_size": hidden_size, "require_fused": require_fused}
    checker = LawChecker()
    cases = [
        CellCase(cell, name, dtype=dtype, reference=reference, **settings)  # type: ignore[arg-type]
        for dtype in (torch.float64, torch.float32)
    ]
    groups = chain([(FOUNDATION, cases[0])], (group for case in cases for group in _all_laws(case)))
    all(checker.check(laws, checked) for laws, checked in groups)  # later groups build on the earlier ones
    report = _report(cases[0], checker, speed=speed)
    if not quiet:
        print_report(report)
    if report.broken:
        raise AssertionError(failure(report))
    return report


def _all_laws(case: CellCase) -> Iterator[tuple[tuple[Law, ...], Any]]:
    yield laws_for(case), case
    for training, reverse in ((True, False), (False, True)):
        yield (step_is_pure, kernel_equals_the_loop), replace(case, training=training, reverse=reverse)
    for made in _layer_cases(case):
        yield layers.laws_for(made), made


def _report(case: CellCase, checker: LawChecker, *, speed: bool) -> CellReport:
    results = checker.results
    is_well_formed = not any(law.problem for law in results[: len(FOUNDATION)])
    expected = {
        law.__name__ for laws, _ in _all_laws(case if is_well_formed else replace(case, make=LSTM)) for law in laws
    }
    skipped = len(expected - checker.names)
    if not is_well_formed:
        return CellReport(case.name, results, skipped=skipped)
    cell = case.layer.cell
    count = count_parameters(cell)
    sizes = f"{count:,} parameters with input size {case.input_size} and hidden size {case.hidden_size}"
    path = case.layer.path
    kernel = [
        GradientComparison("kernel", "plain loop", dtype, value)
        for dtype, value in checker.gradients.items()
        if path == "fused"
    ]
    finite = [
        GradientComparison(name, "finite differences", "float64", gradient_error(case, fused=fused))
        for name, fused in (("kernel", True), ("plain loop", False))
        if path == "fused" or not fused
    ]
    measured = compare_speed(case.make) if speed and not any(law.problem for law in results) else None
    return CellReport(
        case.name, results, skipped=skipped, parameters=sizes, gradients=(*kernel, *finite), path=path, speed=measured
    )


def gradient_error(case: CellCase, *, fused: bool, directions: int = 3, step: float = 1e-5) -> float:
    """The largest difference of directional derivatives and central differences, relative to the derivatives."""
    layer = case.layer
    x = case.input(2, 4)
    state = random_state(layer.cell, 2, case.dtype)
    variables = {"x": x, **{f"state.{name}": value for name, value in state._asdict().items()}}
    weights = dict(layer.named_parameters())

    def loss(values: Mapping[str, Tensor]) -> Tensor:
        start = type(state)(*[values[f"state.{name}"] for name in state._fields])
        with _seeded():
            outputs, final = layer(values["x"], None, start)
        results = (outputs, *final)
        terms = [(each * noise(*each.shape, seed=index)).sum() for index, each in enumerate(results)]
        return torch.stack(terms).sum()

    errors = []
    with nullcontext() if fused else plain(layer):
        leaves = {name: value.detach().clone().requires_grad_() for name, value in variables.items()}
        sources = [*leaves.values(), *weights.values()]
        gradients = torch.autograd.grad(loss(leaves), sources, allow_unused=True, materialize_grads=True)
        for seed in range(directions):
            moves = [noise(*value.shape, seed=100 * seed + index) for index, value in enumerate(sources)]
            expected = sum(float((gradient * move).sum()) for gradient, move in zip(gradients, moves, strict=True))
            values = []
            for sign in (step, -step):
                moved = {
                    name: value + sign * move for (name, value), move in zip(variables.items(), moves, strict=False)
                }
                with torch.no_grad(), _moved(list(weights.values()), moves[len(variables) :], sign):
                    values.append(float(loss(moved)))
            numeric = (values[0] - values[1]) / (2 * step)
            errors.append(abs(numeric - expected) / max(1.0, abs(expected)))
    return max(errors)


@contextmanager
def _moved(parameters: list[nn.Parameter], moves: list[Tensor], size: float) -> Iterator[None]:
    """Parameters that are changed meanwhile."""
    before = [parameter.detach().clone() for parameter in parameters]
    try:
        for parameter, move in zip(parameters, moves, strict=True):
            parameter.add_(move, alpha=size)
        yield
    finally:
        for parameter, value in zip(parameters, before, strict=True):
            parameter.copy_(value)


def _layer_cases(case: CellCase) -> Iterator[LayerCase]:
    forward, backward = case.layer, replace(case, reverse=True).layer
    directions: dict[Direction, Any] = {
        "forward": forward,
        "backward": backward,
        "both": Bidirectional(forward, backward),
    }
    for direction, layer in directions.items():
        yield LayerCase(layer, f"Recurrent({case.name})", direction=direction)
