"""Where else a model is in the same state: phrases whose hidden states are most alike, and what excites a unit.

The idea of LSTMVis (Strobelt et al. 2018): select a phrase, and find other places with the same states.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.layers.recurrent.recurrent import Recurrent
from seqloom.layers.transformer.block import TransformerBlock

Matrix = NDArray[np.float32]


class Match(NamedTuple):
    """A place in the examples."""

    example: int
    start: int  # first element
    stop: int  # after the last one
    value: float  # cosine similarity of the states, or the activation of the unit


class Activity(NamedTuple):
    """Where a unit has its highest and its lowest values."""

    highest: list[Match]
    lowest: list[Match]
    mean: float
    deviation: float


@dataclass(frozen=True)
class LayerStates:
    """The outputs of one layer for all elements of many examples, one after the other."""

    values: Matrix  # (N, units)
    starts: NDArray[np.int64]  # (examples + 1,), where each example begins; the last one is N

    def find_similar(self, phrase: Matrix, *, most: int = 12) -> list[Match]:  # (L, units)
        """The phrases of the same length whose states are most alike, at most one of each example.

        Alike: the cosine of the states of all elements together, after the mean of each unit over all examples was
        subtracted. Without that, all states of a layer are alike.
        """
        length = len(phrase)
        if not length or len(self.values) < length:
            return []
        mean = self.values.mean(axis=0)
        centred, query = self.values - mean, np.asarray(phrase, dtype=np.float32) - mean
        squares = (centred**2).sum(axis=1)
        count = len(centred) - length + 1
        dots, norms = np.zeros(count), np.zeros(count)
        for step in range(length):
            dots += centred[step : step + count] @ query[step]
            norms += squares[step : step + count]
        scale = np.sqrt(norms * (query**2).sum())
        cosines = np.divide(dots, scale, out=np.zeros(count), where=scale > 0)
        return self._best_of_examples(cosines, length=length, most=most)

    def _best_of_examples(self, values: NDArray[Any], *, length: int, most: int) -> list[Match]:
        matches = []
        for example, (start, stop) in enumerate(zip(self.starts[:-1], self.starts[1:], strict=True)):
            inside = values[start : stop - length + 1]
            if stop - start >= length:
                place = int(inside.argmax())
                matches.append(Match(example, place, place + length, float(inside[place])))
        return sorted(matches, key=lambda match: -match.value)[:most]

    def of_example(self, example: int) -> Matrix:  # (T, units)
        """The states of one example."""
        return self.values[self.starts[example] : self.starts[example + 1]]

    def activity(self, unit: int, *, most: int = 8) -> Activity:
        """The places where a unit is most and least active, at most one of each example."""
        values = self.values[:, unit].astype(np.float64)
        highest = self._best_of_examples(values, length=1, most=most)
        lowest = [match._replace(value=-match.value) for match in self._best_of_examples(-values, length=1, most=most)]
        return Activity(highest, lowest, float(values.mean()), float(values.std()))


@dataclass(frozen=True)
class StateIndex:
    """The states of all layers of a model that read the elements of examples one by one."""

    layers: dict[str, LayerStates]
    examples: int
    elements: int


def layer_outputs(module: nn.Module, call: Callable[[], Any]) -> dict[str, Tensor]:  # (B, T, units)
    """What each recurrent layer and each Transformer block computes during a call, by the name of the layer.

    Of a layer that is called several times, the call with most elements. Nothing is changed by it.
    """
    outputs: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(layer: nn.Module, args: Any, result: Any) -> None:  # noqa: ARG001  the signature of a hook
            values = result[0] if isinstance(result, tuple) else result
            known = outputs.get(name)
            if known is None or values.shape[1] > known.shape[1]:
                outputs[name] = values.detach()

        return hook

    with ExitStack() as stack:
        for name, layer in module.named_modules():
            if isinstance(layer, Recurrent | TransformerBlock) and ".pretrained." not in f".{name}.":
                stack.callback(layer.register_forward_hook(keep(name)).remove)
        with torch.no_grad():
            call()
    return outputs


def index_states(
    module: nn.Module,
    batches: Iterable[tuple[list[int], Callable[[], Any]]],  # the number of elements of each row, and the call
) -> StateIndex:
    """The states of layers for many examples; of layers that read other sequences, such as characters, none."""
    parts: dict[str, list[Matrix]] = {}
    lengths: list[int] = []
    dropped: set[str] = set()
    for rows, call in batches:
        outputs = layer_outputs(module, call)
        for name in set(outputs) | set(parts):
            values = outputs.get(name)
            if values is None or len(values) != len(rows) or values.shape[1] != max(rows):
                dropped.add(name)
                continue
            numbers = values.float().cpu().numpy()
            blocks = [numbers[row, :length] for row, length in enumerate(rows)]
            parts.setdefault(name, []).append(np.concatenate(blocks))
        lengths += rows
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    kept = {name: np.concatenate(blocks) for name, blocks in parts.items() if name not in dropped}
    layers = {name: LayerStates(values, starts) for name, values in kept.items()}
    return StateIndex(layers, len(lengths), int(starts[-1]))
