"""A decoder as language model of a search over frames: its log-probabilities in a table that kernels read."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from seqloom import state as states
from seqloom.decoding.frames.language_models import StepLanguage

Numbers = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


class Piece(NamedTuple):
    """What one call of the step gave."""

    state: Any  # (R, …)
    read: int  # symbols that each of its rows has read
    kind: tuple[Any, ...]  # pieces of the same kind can be joined


class NeuralLMTable:
    """A row of the table for each hypothesis that is alive; its state in the piece in which it was made."""

    def __init__(self, language: StepLanguage, *, size: int) -> None:
        self.language = language
        found, state = self._step(np.array([language.start]), language.state)
        self.table: Floats = np.zeros((2 * size, found.shape[1]))
        self.table[0] = found[0]
        self.places = [(_piece(state, 1), 0)] * (2 * size)  # of each row of the table
        self.owners = np.full(2 * size, -1)  # nodes
        self.owners[0] = 0

    def renumber(self, rows: Numbers, live: Numbers) -> None:
        """Nodes have other numbers now; ``rows`` are those of the live ones."""
        self.owners[:] = -1
        self.owners[rows] = live

    def renew(self, rows: Numbers, live: Numbers, *, parents: Numbers, numbers: Numbers) -> None:
        """Give each live node a row: ``rows`` (N,) are those of all nodes, -1 where there is none.

        ``numbers`` are those of the last word, or symbol, of each live node.
        """
        fresh = np.flatnonzero(rows[live] < 0)
        fresh = fresh[np.unique(live[fresh], return_index=True)[1]]
        nodes = live[fresh]
        made = list(self._follow(rows[parents[nodes]], numbers[fresh]))
        gone = np.flatnonzero((self.owners >= 0) & ~np.isin(self.owners, live))
        rows[self.owners[gone]] = -1
        self.owners[gone] = -1
        free = iter(np.flatnonzero(self.owners < 0).tolist())
        for which, found, piece in made:
            for at, place in enumerate(which.tolist()):
                row, node = next(free), nodes[place]
                self.table[row], self.places[row], self.owners[row], rows[node] = found[at], (piece, at), node, row

    def ends(self, rows: Numbers, numbers: Numbers) -> Floats:  # (R,), (R,) → (R,)
        """log p of the end behind one more word of each row."""
        found = np.zeros(len(rows))
        for which, values, _ in self._follow(rows, numbers):
            found[which] = values[:, self.language.end]
        return found

    def _follow(self, rows: Numbers, numbers: Numbers) -> Iterable[tuple[npt.NDArray[np.int64], Floats, Piece]]:
        """One step from each row, with as few calls as can be: which rows, their log-probabilities and states."""
        kinds: dict[Any, dict[int, list[int]]] = {}
        for place, row in enumerate(rows.tolist()):
            piece = self.places[row][0]
            kinds.setdefault((piece.read, piece.kind or id(piece)), {}).setdefault(id(piece), []).append(place)
        for several in kinds.values():
            which = np.array([place for places in several.values() for place in places])
            parts, read = [], 0
            for places in several.values():
                piece, read = self.places[rows[places[0]]][0], self.places[rows[places[0]]][0].read
                parts.append(states.select(piece.state, torch.tensor([self.places[rows[at]][1] for at in places])))
            joined = parts[0] if len(parts) == 1 else states.apply(lambda *each: torch.cat(each), *parts)
            found, state = self._step(numbers[which], joined)
            yield which, found, _piece(state, read + 1)

    @torch.no_grad()
    def _step(self, numbers: npt.NDArray[Any], state: Any) -> tuple[Floats, Any]:
        found, following = self.language.step(torch.from_numpy(numbers.astype(np.int64)), state)
        return found.to(torch.float64).cpu().numpy(), following


def _piece(state: Any, read: int) -> Piece:
    return Piece(state, read, tuple(_shapes(state)))


def _shapes(state: Any) -> list[Any]:
    """The shapes of all tensors without the batch; nothing where a table is shared by rows, which cannot be joined."""
    found: list[Any] = []
    shared = False

    def look(part: Any) -> None:
        nonlocal shared
        if isinstance(part, Tensor):
            found.append((tuple(part.shape[1:]), part.dtype))
        elif isinstance(part, states.Shared):
            shared = True
        else:
            for each in part:
                look(each)

    look(state)
    return [] if shared else found
