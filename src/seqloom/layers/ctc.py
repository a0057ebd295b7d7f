"""The loss of sequences that are shorter than their frames, with no alignment given (CTC, Graves et al. 2006)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from seqloom.kernels.runtime.buffers import allocate, borrow
from seqloom.kernels.runtime.parallel_rows import map_rows


class CTC(NamedTuple):
    """What ``ctc_loss`` finds for each row."""

    losses: Tensor  # (B,), -log p(target | frames); 0 where it is impossible
    possible: Tensor  # (B,), Boolean: whether the target fits into the frames


def ctc_loss(
    logits: Tensor,  # (B, T, V)
    lengths: Tensor,  # (B,), frames of each row; what is behind them does not matter
    targets: Tensor | Sequence[Tensor],  # (B, S), or one for each row
    target_lengths: Tensor | None = None,  # (B,); of a list, the lengths of what is in it
    *,
    blank: int = 0,
    names: Sequence[str] = (),  # of the rows, for errors
) -> CTC:
    """Minus the log-probability of each target, summed over all alignments. Rows that have none have no gradient."""
    sizes, rows = _check(logits, lengths, targets, target_lengths, blank, names)
    moved = logits.to("cpu", torch.float64 if logits.dtype == torch.float64 else torch.float32)
    if torch.is_grad_enabled() and moved.requires_grad:
        losses, possible = _CTC.apply(moved, sizes, rows, blank)
    else:
        with borrow(moved.numel(), moved) as buffer:
            losses, possible = _forward_backward(moved, sizes, rows, blank, buffer[: moved.numel()].view(moved.shape))
    return CTC(losses.to(logits.device), possible.to(logits.device))


def frames_needed(target: Sequence[int]) -> int:
    """How many frames a target needs at least: equal neighbours have a blank between them."""
    from seqloom.kernels.ctc import viterbi

    return viterbi.frames_needed(np.asarray(target, np.int64))


def align(
    log_probabilities: NDArray[np.floating[Any]],  # (T, V), float32 or float64
    target: Sequence[int] | NDArray[np.int64],
    *,
    blank: int = 0,
) -> list[tuple[int, int]]:
    """The first and the last frame of each symbol of the target, on its most probable path."""
    from seqloom.kernels.ctc import viterbi

    symbols = np.asarray(target, np.int64).reshape(-1)
    if log_probabilities.ndim != 2 or log_probabilities.dtype not in (np.float32, np.float64):
        found = f"{log_probabilities.dtype} {log_probabilities.shape}"
        raise ValueError(f"log-probabilities are {found}; expected float32 or float64 of shape (frames, symbols)")
    _check_symbols(symbols, log_probabilities.shape[1], blank, "the target")
    return [(int(first), int(last)) for first, last in viterbi.align(log_probabilities, symbols, blank)]


def _check(
    logits: Tensor,
    lengths: Tensor,
    targets: Tensor | Sequence[Tensor],
    target_lengths: Tensor | None,
    blank: int,
    names: Sequence[str],
) -> tuple[list[int], list[NDArray[np.int64]]]:
    """The number of frames of each row, and its target."""
    if logits.dim() != 3 or not logits.is_floating_point():
        raise ValueError(f"logits are {logits.dtype} {tuple(logits.shape)}; expected floats (batch, frames, symbols)")
    batch, frames, symbols = logits.shape
    if not 0 <= blank < symbols:
        raise ValueError(f"the blank is {blank}; expected one of the {symbols} symbols, 0 to {symbols - 1}")
    if target_lengths is None:
        if isinstance(targets, Tensor):
            raise ValueError("targets in one tensor need target_lengths")
        expected = [len(target) for target in targets]
    else:
        expected = target_lengths.tolist()
    for name, given in (("lengths", lengths), ("targets", targets), ("target_lengths", target_lengths)):
        for tensor in given if isinstance(given, Sequence) else (given,):
            if isinstance(tensor, Tensor) and tensor.numel() and (tensor.is_floating_point() or tensor.is_complex()):
                raise ValueError(f"{name} are {tensor.dtype}; expected whole numbers")
    sizes: list[int] = lengths.tolist()
    if not len(targets) == len(sizes) == len(expected) == batch:
        found = f"{len(sizes)} lengths, {len(targets)} targets, {len(expected)} lengths of targets"
        raise ValueError(f"logits have {batch} rows; there are {found}")
    padded = targets.cpu().numpy() if isinstance(targets, Tensor) else [np.asarray(target) for target in targets]
    rows = []
    for row, (size, length) in enumerate(zip(sizes, expected, strict=True)):
        name = names[row] if row < len(names) else f"row {row}"
        if not 0 <= size <= frames:
            raise ValueError(f"{name}: has {size} frames; expected 0 to {frames}")
        if not 0 <= length <= len(padded[row]):
            raise ValueError(f"{name}: the target has {length} symbols; expected 0 to {len(padded[row])}")
        rows.append(np.ascontiguousarray(padded[row][:length], np.int64))
        _check_symbols(rows[-1], symbols, blank, f"{name}: the target")
    return sizes, rows


def _check_symbols(target: NDArray[np.int64], symbols: int, blank: int, name: str) -> None:
    if len(target) and (target.min() < 0 or target.max() >= symbols):
        wrong = next(int(symbol) for symbol in target if not 0 <= symbol < symbols)
        raise ValueError(f"{name} has the symbol {wrong}; expected 0 to {symbols - 1}")
    if (target == blank).any():
        raise ValueError(f"{name} has the blank, {blank}, inside; a blank is no symbol of a target")


class _CTC(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, logits: Tensor, sizes: list[int], rows: list[NDArray[np.int64]], blank: int
    ) -> tuple[Tensor, Tensor]:
        context.gradient = allocate(logits, *logits.shape)
        losses, possible = _forward_backward(logits, sizes, rows, blank, context.gradient)
        context.mark_non_differentiable(possible)
        context.save_for_backward(logits)
        context.given = sizes, rows, blank
        return losses, possible

    @staticmethod
    @once_differentiable
    def backward(context: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        # It is scaled in place, once; who wants another gradient of the same loss waits for it.
        gradient, context.gradient = context.gradient, None
        if gradient is None:
            (logits,) = context.saved_tensors
            gradient = allocate(logits, *logits.shape)
            sizes, rows, blank = context.given
            _forward_backward(logits, sizes, rows, blank, gradient)
        return gradient.mul_(scale.view(-1, 1, 1)), None, None, None


def _forward_backward(
    logits: Tensor,
    sizes: list[int],
    rows: list[NDArray[np.int64]],
    blank: int,
    gradient: Tensor,  # (B, T, V), written
) -> tuple[Tensor, Tensor]:  # (B,), (B,)
    """The losses, and which rows are possible."""
    from seqloom.kernels.ctc import loss as kernel

    logits = logits.detach()
    torch.softmax(logits, 2, out=gradient)
    scores, tables = logits.numpy(), gradient.numpy()

    def row(number: int) -> float:
        size = sizes[number]
        tables[number, size:] = 0
        return kernel.loss(scores[number, :size], tables[number, :size], rows[number], blank)

    losses = torch.tensor(map_rows(row, sizes), dtype=logits.dtype)
    possible = losses != torch.inf
    return losses.masked_fill(~possible, 0), possible
