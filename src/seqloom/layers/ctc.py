"""Connectionist temporal classification (CTC, Graves et al. 2006): loss and forced alignment."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.kernels.runtime.buffers import allocate, borrow
from seqloom.kernels.runtime.differentiation import differentiable_once
from seqloom.kernels.runtime.threads import map_rows

MAX_WORKSPACE = 1 << 24
"""Elements of scratch memory for one row (128 MB), beyond which a loss without gradient is computed with less."""


class CTCLosses(NamedTuple):
    """Result of ``ctc_loss`` for each row."""

    losses: Tensor  # (B,), -log p(target | frames); 0 where infeasible
    feasible: Tensor  # (B,), whether the target fits into the frames


def ctc_loss(
    logits: Tensor,  # (B, T, V)
    lengths: Tensor,  # (B,), frames of each row; later frames are ignored
    targets: Tensor | Sequence[Tensor],  # (B, S), or one tensor per row
    target_lengths: Tensor | None = None,  # (B,); None: the lengths of the list's tensors
    *,
    blank: int = 0,
    names: Sequence[str] = (),  # names of the rows for error messages
) -> CTCLosses:
    """Negative log-probability of each target, summed over all alignments. Infeasible rows have no gradient."""
    sizes, rows = _check(logits, lengths, targets, target_lengths, blank, names)
    converted = logits.to("cpu", torch.float64 if logits.dtype == torch.float64 else torch.float32)
    if torch.is_grad_enabled() and converted.requires_grad:
        losses, feasible = _CTC.apply(converted, sizes, rows, blank)
    elif _needs_much_memory(sizes, rows):
        losses, feasible = _values(converted, sizes, rows, blank)
    else:
        with borrow(converted.numel(), converted) as buffer:
            losses, feasible = _forward_backward(
                converted, sizes, rows, blank, buffer[: converted.numel()].view(converted.shape)
            )
    return CTCLosses(losses.to(logits.device), feasible.to(logits.device))


def ctc_log_probabilities(
    logits: Tensor,  # (T, V)
    targets: Sequence[Sequence[int]],
    *,
    blank: int = 0,
) -> NDArray[np.float64]:  # (N,)
    """log p(target | frames) of several targets for the same frames, -inf where infeasible. There is no gradient."""
    from seqloom.kernels.ctc import loss as kernel

    table = logits.detach().to("cpu", torch.float64).contiguous()
    rows = [np.asarray(target, np.int64).reshape(-1) for target in targets]
    for row, target in enumerate(rows):
        _check_tokens(target, logits.shape[1], blank, f"row {row}: the target")
    scores, probabilities = table.numpy(), table.softmax(dim=1).numpy()

    def log_probability(row: int) -> float:
        return -kernel.loss_value(scores, rows[row], blank, probabilities)

    return np.array(map_rows(log_probability, list(map(len, rows))))


def frames_needed(target: Sequence[int]) -> int:
    """Smallest number of frames for a target: repeated tokens need a blank between them."""
    from seqloom.kernels.ctc import viterbi

    return viterbi.frames_needed(np.asarray(target, np.int64))


def align(
    log_probabilities: NDArray[np.floating[Any]],  # (T, V), float32 or float64
    target: Sequence[int] | NDArray[np.int64],
    *,
    blank: int = 0,
) -> list[tuple[int, int]]:
    """Return the first and the last frame of each token of the target on the most probable path."""
    from seqloom.kernels.ctc import viterbi

    tokens = np.asarray(target, np.int64).reshape(-1)
    if log_probabilities.ndim != 2 or log_probabilities.dtype not in (np.float32, np.float64):
        actual = f"{log_probabilities.dtype} {log_probabilities.shape}"
        raise ValueError(f"log_probabilities are {actual}, expected float32 or float64 of shape (frames, tokens)")
    _check_tokens(tokens, log_probabilities.shape[1], blank, "the target")
    return [(int(first), int(last)) for first, last in viterbi.align(log_probabilities, tokens, blank)]


def _check(
    logits: Tensor,
    lengths: Tensor,
    targets: Tensor | Sequence[Tensor],
    target_lengths: Tensor | None,
    blank: int,
    names: Sequence[str],
) -> tuple[list[int], list[NDArray[np.int64]]]:
    """Return the number of frames and the target of each row."""
    if logits.dim() != 3 or not logits.is_floating_point():
        raise ValueError(f"logits are {logits.dtype} {tuple(logits.shape)}, expected floats (batch, frames, tokens)")
    batch, frames, vocab_size = logits.shape
    if not 0 <= blank < vocab_size:
        raise ValueError(f"blank is {blank}, expected a token from 0 to {vocab_size - 1}")
    if target_lengths is None:
        if isinstance(targets, Tensor):
            raise ValueError("target_lengths is None, but targets in one tensor need it")
        target_sizes = [len(target) for target in targets]
    else:
        target_sizes = target_lengths.tolist()
    for name, argument in (("lengths", lengths), ("targets", targets), ("target_lengths", target_lengths)):
        for tensor in argument if isinstance(argument, Sequence) else (argument,):
            if isinstance(tensor, Tensor) and tensor.numel() and (tensor.is_floating_point() or tensor.is_complex()):
                raise ValueError(f"{name} are {tensor.dtype}, expected integers")
    sizes: list[int] = lengths.tolist()
    if not len(targets) == len(sizes) == len(target_sizes) == batch:
        actual = f"{len(sizes)} lengths, {len(targets)} targets and {len(target_sizes)} target_lengths"
        raise ValueError(f"logits have {batch} rows, but there are {actual}")
    padded = targets.cpu().numpy() if isinstance(targets, Tensor) else [np.asarray(target) for target in targets]
    rows = []
    for row, (size, length) in enumerate(zip(sizes, target_sizes, strict=True)):
        name = names[row] if row < len(names) else f"row {row}"
        if not 0 <= size <= frames:
            raise ValueError(f"{name}: length is {size}, expected 0 to {frames} frames")
        if not 0 <= length <= len(padded[row]):
            raise ValueError(f"{name}: target length is {length}, expected 0 to {len(padded[row])}")
        rows.append(np.ascontiguousarray(padded[row][:length], np.int64))
        _check_tokens(rows[-1], vocab_size, blank, f"{name}: the target")
    return sizes, rows


def _check_tokens(target: NDArray[np.int64], vocab_size: int, blank: int, name: str) -> None:
    if len(target) and (target.min() < 0 or target.max() >= vocab_size):
        invalid = next(int(token) for token in target if not 0 <= token < vocab_size)
        raise ValueError(f"{name} contains the token {invalid}, expected 0 to {vocab_size - 1}")
    if (target == blank).any():
        raise ValueError(f"{name} contains the blank, {blank}: remove it")


class _CTC(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, logits: Tensor, sizes: list[int], rows: list[NDArray[np.int64]], blank: int
    ) -> tuple[Tensor, Tensor]:
        context.gradient = allocate(logits, *logits.shape)
        losses, feasible = _forward_backward(logits, sizes, rows, blank, context.gradient)
        context.mark_non_differentiable(feasible)
        context.save_for_backward(logits)
        context.arguments = sizes, rows, blank
        return losses, feasible

    @staticmethod
    @differentiable_once
    def backward(context: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        # The stored gradient is scaled in place once; a second backward pass computes it again.
        gradient, context.gradient = context.gradient, None
        if gradient is None:
            (logits,) = context.saved_tensors
            gradient = allocate(logits, *logits.shape)
            sizes, rows, blank = context.arguments
            _forward_backward(logits, sizes, rows, blank, gradient)
        return gradient.mul_(scale.view(-1, 1, 1)), None, None, None


def _needs_much_memory(sizes: list[int], rows: list[NDArray[np.int64]]) -> bool:
    from seqloom.kernels.ctc.scaled import workspace_size

    return any(workspace_size(size, len(row)) > MAX_WORKSPACE for size, row in zip(sizes, rows, strict=True))


def _values(
    logits: Tensor, sizes: list[int], rows: list[NDArray[np.int64]], blank: int
) -> tuple[Tensor, Tensor]:  # (B,), (B,)
    """The losses without gradients, and which rows are feasible, in little memory."""
    from seqloom.kernels.ctc import loss as kernel

    scores = logits.detach().numpy()

    def row_loss(row: int) -> float:
        return kernel.loss_value(scores[row, : sizes[row]], rows[row], blank)

    losses = torch.tensor(map_rows(row_loss, sizes), dtype=logits.dtype)
    feasible = losses != torch.inf
    return losses.masked_fill(~feasible, 0), feasible


def _forward_backward(
    logits: Tensor,
    sizes: list[int],
    rows: list[NDArray[np.int64]],
    blank: int,
    gradient: Tensor,  # (B, T, V), written
) -> tuple[Tensor, Tensor]:  # (B,), (B,)
    """Return the losses and which rows are feasible."""
    from seqloom.kernels.ctc import loss as kernel

    logits = logits.detach()
    torch.softmax(logits, 2, out=gradient)
    scores, gradients = logits.numpy(), gradient.numpy()

    def row_loss(row: int) -> float:
        size = sizes[row]
        gradients[row, size:] = 0
        return kernel.loss(scores[row, :size], gradients[row, :size], rows[row], blank)

    losses = torch.tensor(map_rows(row_loss, sizes), dtype=logits.dtype)
    feasible = losses != torch.inf
    return losses.masked_fill(~feasible, 0), feasible
