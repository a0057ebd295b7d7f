"""Which inputs mattered for a score: integrated gradients, input × gradient, occlusion.

An attribution gives each input a share of a score: positive if it raises the score, negative if it lowers it. The
reference is the zero vector, which is the embedding of padding and the mean of scaled channels.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

METHODS = ("integrated_gradients", "input_x_gradient", "occlusion")
"""Names as in Captum and Inseq; the first is the default."""
DEFAULT = METHODS[0]
LONG = 2000  # inputs above which the default is input_x_gradient, which takes a single backward pass
ORDER, PANELS = 8, 4  # Gauss-Legendre nodes in a part of the path, and parts at the beginning
TOLERANCE = 0.01  # completeness gap of integrated gradients, relative to the sum of the absolute values
MAX_STEPS = 1024  # points on the path of integrated gradients
MAX_POSITIONS = 4096  # time steps in a batch
MAX_WINDOWS = 32  # windows over time in which channels are occluded

Score = Callable[[Tensor], Tensor]
"""Vectors (N, T, D) to scores (N,); rows do not affect each other."""
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Attribution:
    """How much each word, or each channel at each time step, raises or lowers the score of a label."""

    method: str  # one of METHODS
    target: str  # the label, or the name of the number
    tokens: list[str]  # as the model reads them, or numbers of time steps
    values: list[float]  # one for each token
    words: list[str]  # the same as words: characters and subwords are merged
    word_values: list[float]
    score: float  # log-odds ln p / (1 - p) of the target, or its value
    baseline_score: float  # the same if all inputs are zero vectors
    word: str = ""  # whose label is explained; empty: the label of the whole input
    position: int = 0  # of that word, from 1; 0: none
    is_number: bool = False  # the target is a number, not a label
    steps: int = 0  # points on the path of integrated gradients
    gap: float = 0.0  # integrated gradients: score - baseline_score - sum of the values
    window: int = 0  # occlusion of channels: time steps that are occluded at once
    channel_values: list[list[float]] = field(default_factory=list)  # (T, channels); of texts empty
    channels: list[str] = field(default_factory=list)  # names of the channels; empty: unknown
    signal: NDArray[Any] | None = field(default=None, repr=False)  # (T, channels), the values read; not in JSON
    pictures: NDArray[Any] | None = field(default=None, repr=False)  # (H, W, 3), or a video (T, H, W, 3); not in JSON
    grid: tuple[int, int] | None = None  # the tokens are these rows and columns of the image
    step_seconds: float = 0.0  # duration of a time step of sound; 0: no sound
    start_seconds: float = 0.0  # time of the first step of sound, after silence that is not read
    times: list[str] = field(default_factory=list)  # time stamps of the time steps; empty: unknown

    @property
    def relative_gap(self) -> float:
        """The completeness gap relative to the sum of the absolute values."""
        total = math.fsum(map(abs, self.values))
        return abs(self.gap) / total if total else 0.0

    @property
    def is_complete(self) -> bool:
        """Whether the values add up to the difference of the scores, as far as the method promises it."""
        return self.relative_gap <= TOLERANCE


def default_method(length: int) -> tuple[str, list[str]]:
    """The method for an input of this length if none is chosen, and what to note about it."""
    if length <= LONG:
        return DEFAULT, []
    fast = METHODS[1]
    note = f"the input is long, so that the method is {fast}; {DEFAULT} is more exact and takes longer"
    return fast, [note]


def check_method(name: str) -> str:
    """The name of a method; ValueError if there is none of this name."""
    if name in METHODS:
        return name
    near = get_close_matches(name.replace("-", "_"), METHODS, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ValueError(f"unknown method {name!r}{hint} (allowed: {', '.join(METHODS)}, none)")


def attribute(
    score: Score,
    vectors: Tensor,  # (T, D), embedded inputs
    *,
    method: str,
    target: str,
    tokens: Sequence[str],
    words: Sequence[tuple[str, Sequence[int]]] = (),  # words with the indices of their tokens; empty: the tokens
    signal: NDArray[Any] | None = None,  # (T, D): the vectors are channels, of which each has its own value
    channels: Sequence[str] = (),  # their names; empty: unknown
    word: str = "",
    position: int = 0,
    is_number: bool = False,  # the score is the value of a number, not the log-odds of a label
    times: Sequence[str] = (),  # time stamps of the vectors; empty: unknown
) -> Attribution:
    """Attribute a score to the inputs."""
    check_method(method)
    vectors = vectors.detach()
    steps, gap, window = 0, 0.0, 0
    groups = words or [(token, [index]) for index, token in enumerate(tokens)]
    ends = _scores(score, torch.stack([torch.zeros_like(vectors), vectors]))
    if not np.isfinite(ends).all():
        raise ValueError(f"the label {target!r} is impossible here: there is no score to explain")
    word_values = None
    if method == "occlusion":
        if signal is not None:
            window = math.ceil(len(vectors) / MAX_WINDOWS)
            matrix = occlude_channels(score, vectors, window=window)
            parts = [range(start, min(start + window, len(vectors))) for start in range(0, len(vectors), window)]
            values = np.repeat(occlude(score, vectors, parts), [len(part) for part in parts])
        else:
            values = occlude(score, vectors, [[index] for index in range(len(tokens))])
            word_values = occlude(score, vectors, [indices for _, indices in groups]) if words else values
            matrix = values[:, None]
    elif method == "input_x_gradient":
        matrix = input_x_gradient(score, vectors)
        values = matrix.sum(axis=1)
    else:
        integral = integrated_gradients(score, vectors)
        matrix, steps = integral.values, integral.steps
        values = matrix.sum(axis=1)
        gap = float(ends[1] - ends[0] - values.sum())
    if word_values is None:
        word_values = np.array([values[list(indices)].sum() for _, indices in groups])
    return Attribution(
        method=method,
        target=target,
        tokens=list(tokens),
        values=values.tolist(),
        words=[name for name, _ in groups],
        word_values=word_values.tolist(),
        score=float(ends[1]),
        baseline_score=float(ends[0]),
        word=word,
        position=position,
        is_number=is_number,
        steps=steps,
        gap=gap,
        window=window,
        channel_values=matrix.tolist() if signal is not None else [],
        channels=list(channels) if signal is not None else [],
        signal=signal,
        times=list(times),
    )


def input_x_gradient(score: Score, vectors: Tensor) -> Matrix:  # (T, D)
    """Each input times the gradient of the score (Shrikumar et al. 2016): exact for a linear score."""
    (gradient,) = _gradients(score, vectors.unsqueeze(0))
    values: Matrix = vectors.double().cpu().numpy() * gradient
    return values


class IntegratedGradients(NamedTuple):
    """Values that add up to the difference of the scores, and the number of points at which gradients were summed."""

    values: Matrix  # (T, D)
    steps: int


class _Panel(NamedTuple):
    """A part of the path from zero to the inputs."""

    start: float
    end: float
    values: Matrix  # (T, D), the integral over this part
    gap: float  # difference of the scores at its ends, minus the sum of the values


def integrated_gradients(score: Score, vectors: Tensor, *, max_steps: int = MAX_STEPS) -> IntegratedGradients:
    """The gradient, integrated along the straight path from zero vectors to the inputs (Sundararajan et al. 2017).

    The integral over a part of the path must equal the difference of the scores at its ends. Parts where it does not
    are bisected, until the gaps are small or ``max_steps`` is reached.
    """
    panels = _integrate(score, vectors, list(pairwise(np.linspace(0, 1, PANELS + 1))))
    while True:
        values = np.sum([panel.values for panel in panels], axis=0)
        gaps = np.array([panel.gap for panel in panels])
        allowed = TOLERANCE / 2 * np.abs(values.sum(axis=1)).sum()
        steps = ORDER * len(panels)
        # The gaps of the parts may cancel in their sum, but not in its estimate from their squares.
        if max(abs(gaps.sum()), math.sqrt((gaps**2).sum())) <= allowed or steps >= max_steps:
            return IntegratedGradients(values, steps)
        ordered = sorted(panels, key=lambda panel: -abs(panel.gap))
        coarse = [panel for panel in ordered if abs(panel.gap) > allowed / (2 * math.sqrt(len(panels)))] or ordered[:1]
        coarse = coarse[: max(1, (max_steps - steps) // ORDER)]
        halves = []
        for panel in coarse:
            middle = (panel.start + panel.end) / 2
            halves += [(panel.start, middle), (middle, panel.end)]
        panels = ordered[len(coarse) :] + _integrate(score, vectors, halves)


def _integrate(score: Score, vectors: Tensor, parts: Sequence[tuple[float, float]]) -> list[_Panel]:
    """Gauss-Legendre integrals over parts of the path."""
    nodes, weights = np.polynomial.legendre.leggauss(ORDER)  # on [-1, 1]
    ends = np.array(parts)  # (parts, 2)
    middles, halves = ends.mean(axis=1), np.diff(ends, axis=1)[:, 0] / 2
    fractions = middles[:, None] + halves[:, None] * nodes  # (parts, ORDER)
    scores = _scores(score, _points(vectors, ends.ravel())).reshape(-1, 2)
    gradients = _gradients(score, _points(vectors, fractions.ravel())).reshape(-1, ORDER, *vectors.shape)
    values = np.einsum("p,n,pntd->ptd", halves, weights, gradients) * vectors.double().cpu().numpy()
    gaps = np.diff(scores, axis=1)[:, 0] - values.sum(axis=(1, 2))
    return [_Panel(*row) for row in zip(*ends.T.tolist(), values, gaps.tolist(), strict=True)]


def _points(vectors: Tensor, fractions: Matrix) -> Tensor:  # (N, T, D)
    return torch.tensor(fractions, dtype=vectors.dtype, device=vectors.device)[:, None, None] * vectors


def occlude(score: Score, vectors: Tensor, groups: Sequence[Sequence[int]]) -> Matrix:  # (groups,)
    """How much the score falls if the inputs of a group become zero vectors, for each group (Zeiler & Fergus 2014)."""
    masks = torch.ones(len(groups), len(vectors), 1, dtype=vectors.dtype, device=vectors.device)
    for row, indices in enumerate(groups):
        masks[row, list(indices)] = 0
    return _occlude(score, vectors, masks)


def occlude_channels(score: Score, vectors: Tensor, *, window: int) -> Matrix:  # (T, D)
    """How much the score falls if a channel becomes zero in a window of time, shown at each time step of the window."""
    length, channels = vectors.shape
    starts = range(0, length, window)
    values = np.zeros((length, channels))
    for start in starts:
        masks = torch.ones(channels, length, channels, dtype=vectors.dtype, device=vectors.device)
        masks[torch.arange(channels), start : start + window, torch.arange(channels)] = 0
        values[start : start + window] = _occlude(score, vectors, masks)
    return values


def _occlude(score: Score, vectors: Tensor, masks: Tensor) -> Matrix:  # (N,)
    rows = max(1, MAX_POSITIONS // len(vectors))
    (full,) = _scores(score, vectors.unsqueeze(0))
    return np.concatenate([full - _scores(score, vectors * part) for part in masks.split(rows)])


@torch.no_grad()
def _scores(score: Score, points: Tensor) -> Matrix:  # (N, T, D) → (N,)
    rows = max(1, MAX_POSITIONS // points.shape[1])
    return torch.cat([score(part) for part in points.split(rows)]).double().cpu().numpy()


def _gradients(score: Score, points: Tensor) -> Matrix:  # (N, T, D) → the same
    """The gradients of the scores with respect to the points; gradients of parameters stay as they are."""
    rows = max(1, MAX_POSITIONS // points.shape[1])
    gradients = []
    for part in points.split(rows):
        with torch.enable_grad():
            inputs = part.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(score(inputs).sum(), inputs)
        gradients.append(gradient.double().cpu().numpy())
    return np.concatenate(gradients)
