"""The laws of a layer: pieces, padding, rows of a batch, saved weights, tracing."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from seqloom import state as states
from seqloom.insight import capture_attention, trace_gates
from seqloom.layers.custom import CustomLayer
from seqloom.layers.layer import Layer, Memory
from seqloom.testing.laws import (
    TOLERANCES,
    Law,
    assert_close,
    check_laws,
    make_mask,
    noise,
    randomize,
    require,
    saved,
    tensors,
)

Direction = Literal["forward", "backward", "both"]
NAN = float("nan")


@dataclass(frozen=True)
class LayerCase:
    """A layer with random weights in eval mode, and what the laws need to know about it. The laws do not change it."""

    layer: Layer
    name: str
    direction: Direction = "forward"
    memory_size: int = 0
    encoder: Layer | None = None
    comparable_state: bool = True
    make: Callable[[], Layer] | None = None  # another layer of the kind, with weights of its own
    tolerance: float | None = None  # relative to the largest value of a tensor; None: that of the dtype

    @property
    def dtype(self) -> torch.dtype:
        return next(self.layer.parameters(), torch.empty(0)).dtype

    @property
    def rounding(self) -> float:
        return TOLERANCES[self.dtype] if self.tolerance is None else self.tolerance

    def noise(self, *shape: int, seed: int = 0) -> Tensor:
        return noise(*shape, seed=seed, dtype=self.dtype)

    def input(self, rows: int, time: int, *, seed: int = 0) -> Tensor:
        return self.noise(rows, time, self.layer.input_size, seed=seed)

    def memory(self, lengths: Sequence[int], *, extra: int = 0, filling: float = 0.0) -> Memory | None:
        """A random output of an encoder, with rows of the given lengths; padded by ``extra`` more elements."""
        if not self.memory_size:
            return None
        mask = make_mask(list(lengths), max(lengths, default=0) + extra)
        values = self.noise(len(lengths), 20, self.memory_size, seed=11)
        values = torch.cat([values, values[:, : max(0, mask.shape[1] - 20)]], dim=1)[:, : mask.shape[1]]
        values = values.masked_fill(~mask.unsqueeze(-1), filling)
        state: Any = ()
        if self.encoder is not None:
            seeds = iter(range(12, 1000))
            start = self.encoder.start(len(lengths))
            state = states.apply(lambda tensor: self.noise(*tensor.shape, seed=next(seeds)), start)
        return Memory(values, mask, state)

    def start(self, rows: int, memory: Memory | None = None) -> Any:
        """The state before the first element; None where the layer reads no memory."""
        if not self.memory_size:
            return None
        given = self.memory([3, 1, 4, 0, 2, 4][:rows]) if memory is None else memory
        return self.layer.start(rows, given, coverage=True)

    def __str__(self) -> str:
        return f"{self.name} [{self.dtype}, {self.direction}]".replace("torch.", "")


class Result(NamedTuple):
    """What one call of a layer gave."""

    outputs: Tensor
    gradient: Tensor  # of x
    state: dict[str, Tensor]
    memory: dict[str, Tensor]  # gradients of the source
    parameters: dict[str, Tensor]  # their gradients

    def everything(self) -> dict[str, Tensor]:
        return {
            "outputs": self.outputs,
            "gradient of x": self.gradient,
            **self.state,
            **self.memory,
            **self.parameters,
        }


def run(
    case: LayerCase,
    x: Tensor,
    mask: Tensor | None,
    *,
    memory: Memory | None = None,
    rows: list[int] | None = None,
    call: Callable[..., Any] | None = None,
) -> Result:
    """Results and gradients of some rows; in the loss, every output and state has its own weight."""
    x = x.clone().requires_grad_()
    chosen = list(range(len(x))) if rows is None else rows
    sources: dict[str, Tensor] = {}
    start = None
    if memory is not None:
        memory = states.apply(
            lambda tensor: tensor.clone().requires_grad_() if tensor.is_floating_point() else tensor, memory
        )
        floats = {name: value for name, value in tensors(memory, "memory").items() if value.requires_grad}
        sources = {f"gradient of {name}": value for name, value in floats.items()}
        start = case.start(len(chosen), states.apply(lambda tensor: tensor[chosen], memory))
    outputs, after = (call or case.layer)(x[chosen], None if mask is None else mask[chosen], start)
    state = tensors(after) if case.comparable_state else {}
    weights = case.noise(len(x), 120, case.layer.output_size, seed=5)[chosen, : x.shape[1]]
    loss = (outputs * weights).sum() + sum(value.square().sum() for value in state.values() if value.requires_grad)
    parameters = {f"gradient of {name}": value for name, value in case.layer.named_parameters()}
    variables = {"x": x, **sources, **parameters}
    gradient_of = {name: torch.zeros_like(value) for name, value in variables.items()}
    if loss.requires_grad:  # not the case without a single step
        gradients = torch.autograd.grad(loss, list(variables.values()), allow_unused=True, materialize_grads=True)
        gradient_of = dict(zip(variables, gradients, strict=True))
    return Result(
        outputs.detach(),
        gradient_of["x"],
        {name: value.detach() for name, value in state.items()},
        {name: gradient_of[name] for name in sources},
        {name: gradient_of[name] for name in parameters},
    )


def shapes_are_right(case: LayerCase) -> None:
    """The output is (B, T, output_size), the state batch first; no rows and no steps are allowed."""
    for rows, time in ((3, 4), (2, 0), (0, 3)):
        outputs, state = case.layer(case.input(rows, time), None, case.start(rows))
        if case.direction != "both":
            outputs, state = case.layer(case.input(rows, time), None, state)
        expected = (rows, time, case.layer.output_size)
        require(tuple(outputs.shape) == expected, f"outputs: expected shape {expected}, found {tuple(outputs.shape)}")
        require(outputs.dtype == case.dtype, f"outputs: expected {case.dtype}, found {outputs.dtype}")
        for name, tensor in tensors(state).items():
            require(
                tensor.dim() > 0 and len(tensor) == rows,
                f"{name}: expected {rows} rows (batch first), found shape {tuple(tensor.shape)}",
            )


def pieces_equal_the_whole(
    case: LayerCase,
    *,
    lengths: Sequence[int] = (7, 2, 0, 5),
    source: Sequence[int] = (3, 5, 4, 0),
    cuts: Sequence[int] = (1, 4),
) -> None:
    """A sequence that is run in pieces, with the state passed on, equals the sequence run whole."""
    time = max(lengths)
    x, mask = case.input(len(lengths), time), make_mask(list(lengths), time)
    start = case.start(len(lengths), case.memory(source))
    whole, last = case.layer(x, mask, start)
    spans = [slice(*edge) for edge in pairwise([0, *sorted(min(cut, time) for cut in cuts), time])]
    state, pieces = start, []
    for span in spans if case.direction == "forward" else reversed(spans):
        piece, state = case.layer(x[:, span], mask[:, span], state)
        pieces.append(piece)
    outputs = torch.cat(pieces if case.direction == "forward" else pieces[::-1], dim=1)
    assert_close({"outputs": outputs}, {"outputs": whole}, tolerance=case.rounding)
    if case.comparable_state:
        assert_close(tensors(state), tensors(last), tolerance=case.rounding)


def padding_is_invisible(
    case: LayerCase,
    *,
    lengths: Sequence[int] = (5, 2, 0, 4),
    source: Sequence[int] = (2, 4, 3, 0),
    extra: tuple[int, int] = (3, 2),  # padding added to the sequences and to the source
    filling: float | None = NAN,  # None: noise
) -> None:
    """Outputs and gradients do not depend on how much padding there is or what it holds, even if that is NaN."""
    time = max(lengths)
    mask, longer = make_mask(list(lengths), time), make_mask(list(lengths), time + extra[0])
    x = case.input(len(lengths), time + extra[0])
    padded = x if filling is None else torch.where(longer.unsqueeze(-1), x, filling)
    clean = torch.where(mask.unsqueeze(-1), x[:, :time], 0)
    memory = case.memory(source)
    padded_memory = case.memory(source, extra=extra[1], filling=0.0 if filling is None else filling)
    expected, actual = run(case, clean, mask, memory=memory), run(case, padded, longer, memory=padded_memory)
    for name, value in (("outputs", actual.outputs), ("gradient of x", actual.gradient)):
        assert_close({f"{name} in padding": value[~longer]}, {f"{name} in padding": 0 * value[~longer]}, tolerance=0)
    if padded_memory is not None:
        memory_gradient = actual.memory["gradient of memory.values"][~padded_memory.mask]
        assert_close(
            {"gradient of padding": memory_gradient},
            {"gradient of padding": torch.zeros_like(memory_gradient)},
            tolerance=0,
        )
    # What is kept for each element of the source (coverage, gradients) is as wide as the source.
    actual = Result(
        actual.outputs[:, :time],
        actual.gradient[:, :time],
        {name: _narrow(value, expected.state[name]) for name, value in actual.state.items()},
        {name: _narrow(value, expected.memory[name]) for name, value in actual.memory.items()},
        actual.parameters,
    )
    assert_close(actual.everything(), expected.everything(), tolerance=case.rounding)
    if case.direction != "both":
        continuation = case.input(len(lengths), 2, seed=7)
        continued = [
            case.layer(continuation, None, case.layer(values, real, case.start(len(lengths), given))[1])[0]
            for values, real, given in ((padded, longer, padded_memory), (clean, mask, memory))
        ]
        assert_close(
            {"outputs after the padding": continued[0]},
            {"outputs after the padding": continued[1]},
            tolerance=case.rounding,
        )


def _narrow(value: Tensor, like: Tensor) -> Tensor:
    return value[:, : like.shape[1]] if like.dim() > 1 else value


def a_full_mask_is_no_mask(case: LayerCase) -> None:
    """A mask that is True everywhere changes nothing."""
    x, memory = case.input(3, 4), case.memory([3, 1, 4])
    actual = run(case, x, torch.ones(3, 4, dtype=torch.bool), memory=memory)
    assert_close(actual.everything(), run(case, x, None, memory=memory).everything(), tolerance=case.rounding)


def rows_are_independent(case: LayerCase) -> None:
    """The other rows of a batch are invisible, and the gradients of its parts add up to the gradient of the whole."""
    x, mask, memory = case.input(5, 4), make_mask([4, 2, 0, 3, 4], 4), case.memory([3, 1, 4, 0, 4])
    whole = run(case, x, mask, memory=memory)
    parts = [(rows, run(case, x, mask, memory=memory, rows=rows)) for rows in ([0, 1], [2], [4, 3])]
    for rows, part in parts:
        left = {"outputs": part.outputs, **part.state}
        right = {"outputs": whole.outputs[rows], **{name: value[rows] for name, value in whole.state.items()}}
        assert_close(left, right, tolerance=case.rounding)
    gradients = [{"gradient of x": part.gradient, **part.memory, **part.parameters} for _, part in parts]
    total = {name: torch.stack([each[name] for each in gradients]).sum(dim=0) for name in gradients[0]}
    # The gradients of the parts are rounded before they are added; normalisation turns small values into large ones.
    slack = 10 if case.dtype == torch.float32 else 1
    expected = {"gradient of x": whole.gradient, **whole.memory, **whole.parameters}
    assert_close(total, expected, tolerance=slack * case.rounding)


def a_row_equals_the_row_alone(
    case: LayerCase, *, lengths: Sequence[int] = (4, 1, 0, 3), source: Sequence[int] = (2, 4, 3, 0)
) -> None:
    """A row of a padded batch equals the same sequence by itself, without padding and without a mask."""
    time, memory = max(lengths), case.memory(source)
    x = case.input(len(lengths), time)
    outputs, state = case.layer(x, make_mask(list(lengths), time), case.start(len(lengths), memory))
    for row, length in enumerate(lengths):
        only = torch.tensor([row])
        own = None if memory is None else states.select(memory, only)
        alone, last = case.layer(x[only, :length], None, case.start(1, own))
        assert_close(
            {f"outputs of row {row}": outputs[only, :length]}, {f"outputs of row {row}": alone}, tolerance=case.rounding
        )
        if case.comparable_state:
            own_state = {name: value[only] for name, value in tensors(state).items()}
            assert_close(own_state, tensors(last), tolerance=case.rounding)


def a_row_of_nan_does_not_spread(case: LayerCase) -> None:
    """A row that holds NaN leaves the other rows as they are."""
    x, mask, memory = case.input(3, 4), make_mask([4, 4, 3], 4), case.memory([3, 2, 4])
    expected = run(case, x, mask, memory=memory)
    x[1] = NAN
    if memory is not None:
        memory.values[1] = NAN
    actual = run(case, x, mask, memory=memory)
    left, right = (
        {"outputs": result.outputs, "gradient of x": result.gradient, **result.state} for result in (actual, expected)
    )
    others = [0, 2]
    assert_close(
        {name: value[others] for name, value in left.items()},
        {name: value[others] for name, value in right.items()},
        tolerance=case.rounding,
    )


def empty_rows_keep_their_state(case: LayerCase) -> None:
    """Rows without a real element have outputs of zero and leave the state as it was."""
    _, start = case.layer(case.input(2, 3), None, case.start(2))
    for time in (0, 3):
        outputs, state = case.layer(case.input(2, time, seed=1), make_mask([0, 0], time), start)
        assert_close({"outputs": outputs}, {"outputs": torch.zeros_like(outputs)}, tolerance=0)
        if case.comparable_state:
            assert_close(tensors(state, shared=True), tensors(start, shared=True), tolerance=0)
        if case.direction != "both":
            after, before = (case.layer(case.input(2, 2, seed=2), None, each)[0] for each in (state, start))
            assert_close({"outputs afterwards": after}, {"outputs afterwards": before}, tolerance=case.rounding)


def rows_of_a_state_can_be_selected(case: LayerCase) -> None:
    """Rows of a state can be reordered, dropped and repeated, as a beam search does."""
    x, rows = case.input(3, 6), torch.tensor([2, 0, 0, 1])
    early, late = (slice(0, 4), slice(4, 6)) if case.direction == "forward" else (slice(2, 6), slice(0, 2))
    with torch.no_grad():
        whole = case.layer(x, None, case.start(3))[0][:, late]
        state = case.layer(x[:, early], None, case.start(3))[1]
        moved = case.layer(x[rows, late], None, states.select(state, rows))[0]
        fewer = case.layer(x[1:2, late], None, states.select(state, torch.tensor([1])))[0]
        repeated = case.layer(x[:, late].repeat_interleave(2, dim=0), None, states.repeat(state, 2))[0]
    assert_close(
        {"outputs of selected rows": moved, "outputs of one row": fewer, "outputs of repeated rows": repeated},
        {
            "outputs of selected rows": whole[rows],
            "outputs of one row": whole[1:2],
            "outputs of repeated rows": whole.repeat_interleave(2, dim=0),
        },
        tolerance=case.rounding,
    )


def calls_have_no_side_effects(case: LayerCase) -> None:
    """A call changes neither its arguments nor the layer: called again, also with the same state, it gives the same."""
    x, mask, memory = case.input(3, 5), make_mask([5, 0, 3], 5), case.memory([3, 1, 4])
    given, real = x.clone(), mask.clone()
    before = {name: value.detach().clone() for name, value in case.layer.state_dict().items()}
    with torch.no_grad():
        start = case.layer(x, mask, case.start(3, memory))[1]
        first, second = (case.layer(x, mask, start)[0].clone() for _ in range(2))
    assert_close({"x": x, "mask": mask}, {"x": given, "mask": real}, tolerance=0)
    assert_close({"outputs of the second call": second}, {"outputs of the second call": first}, tolerance=0)
    assert_close(dict(case.layer.state_dict()), before, tolerance=0)


def recording_gradients_changes_nothing(case: LayerCase) -> None:
    """Without gradients, and in inference mode, the results are the same."""
    x, mask, memory = case.input(3, 5), make_mask([5, 1, 3], 5), case.memory([3, 1, 4])
    outputs, state = case.layer(x, mask, case.start(3, memory))
    expected = {"outputs": outputs, **(tensors(state) if case.comparable_state else {})}
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            silent, last = case.layer(x, mask, case.start(3, memory))
        require(not silent.requires_grad, f"outputs require gradients inside {mode.__name__}")
        actual = {"outputs": silent, **(tensors(last) if case.comparable_state else {})}
        assert_close(actual, expected, tolerance=case.rounding)


def saved_weights_restore_the_layer(case: LayerCase) -> None:
    """A layer with the saved weights, and a deep copy, give the same results and gradients bit for bit."""
    x, mask, memory = case.input(3, 5), make_mask([5, 0, 3], 5), case.memory([3, 1, 4])
    expected = run(case, x, mask, memory=memory)
    restored = copy.deepcopy(case.layer) if case.make is None else case.make().to(case.dtype).eval()
    randomize(restored, seed=1, dtype=case.dtype)
    if next(case.layer.parameters(), None) is not None:
        other = run(replace(case, layer=restored), x, mask, memory=memory).outputs
        require(not torch.equal(other, expected.outputs), "the outputs do not depend on the parameters of the layer")
    restored.load_state_dict(saved(case.layer))
    for layer in (restored, copy.deepcopy(case.layer)):
        actual = run(replace(case, layer=layer), x, mask, memory=memory)
        assert_close(actual.everything(), expected.everything(), tolerance=0)


def tracing_changes_nothing(case: LayerCase) -> None:
    """Traced or not: outputs, gradients and random numbers are the same bit for bit, also in training."""
    x, mask, memory = case.input(3, 5), make_mask([5, 0, 3], 5), case.memory([3, 1, 4])
    results = []
    case.layer.train()
    try:
        for tracer in (None, trace_gates, capture_attention):

            def call(*arguments: Any, tracer: Any = tracer) -> Any:
                return case.layer(*arguments) if tracer is None else tracer(case.layer, *arguments)[0]

            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(3)
                actual = run(case, x, mask, memory=memory, call=call)
                results.append({**actual.everything(), "random numbers": torch.rand(2)})
    finally:
        case.layer.eval()
    for traced in results[1:]:
        assert_close(traced, results[0], tolerance=0)


LAWS: tuple[Law, ...] = (
    shapes_are_right,
    padding_is_invisible,
    a_full_mask_is_no_mask,
    rows_are_independent,
    a_row_equals_the_row_alone,
    a_row_of_nan_does_not_spread,
    empty_rows_keep_their_state,
    calls_have_no_side_effects,
    recording_gradients_changes_nothing,
    saved_weights_restore_the_layer,
    tracing_changes_nothing,
)
STREAMING_LAWS: tuple[Law, ...] = (pieces_equal_the_whole, rows_of_a_state_can_be_selected)
"""For layers that read in one direction only."""


def laws_for(case: LayerCase) -> tuple[Law, ...]:
    return LAWS if case.direction == "both" else STREAMING_LAWS + LAWS


def check_layer(
    layer: nn.Module | Callable[[int], nn.Module],  # a layer, or a class or function that makes one for an input size
    *,
    input_size: int = 3,  # of a module that is not a Layer and so does not know it
    direction: Direction = "forward",
    memory_size: int = 0,
    encoder: Layer | None = None,
    comparable_state: bool = True,
) -> None:
    """Check that a layer keeps the contract, in float64 and float32; raise an AssertionError that names the broken law.

    The layer is copied, given random weights and put into eval mode. ``direction`` says how it reads: "forward" or
    "backward" can be run in pieces (backward: the last piece first), "both" needs the whole sequence. A layer that
    attends to a source needs ``memory_size``, and ``encoder`` if it reads the encoder's last state, too. Set
    ``comparable_state=False`` where the layout of the state depends on how it was reached, as that of a cache does.

    A ``torch.nn.Module`` that is not a ``seqloom.Layer`` is wrapped as ``seqloom.train(layer=…)`` wraps it.
    """
    for dtype in (torch.float64, torch.float32):

        def make(dtype: torch.dtype = dtype) -> Layer:
            module = copy.deepcopy(layer) if isinstance(layer, nn.Module) else layer(input_size)
            module = module.eval().to(dtype)
            return module if isinstance(module, Layer) else CustomLayer(module, input_size)

        made = make()
        randomize(made, dtype=dtype)
        case = LayerCase(
            made,
            type(made.module if isinstance(made, CustomLayer) else made).__name__,
            direction=direction,
            memory_size=memory_size,
            encoder=encoder,
            comparable_state=comparable_state,
            make=make,
        )
        check_laws(laws_for(case), case)
