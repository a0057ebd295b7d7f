"""What prefix and lexicon beams share: a tree of hypotheses, and a neural language model queried after every frame."""

from abc import abstractmethod
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from seqloom.decoding.frames.aligning_stream import AligningStream, Doubles
from seqloom.decoding.frames.language_models import LM, NeuralLM
from seqloom.decoding.frames.neural_lm import NeuralLMTable
from seqloom.kernels.frame_beam.lexicon_state import HistoryTree
from seqloom.kernels.frame_beam.ngram_scorer import Scorer
from seqloom.kernels.frame_beam.prefix_beam import COMMITTED, LAG_NODE, NODES, Limits, TokenTree
from seqloom.kernels.frame_beam.primitives import fill_child_table, mark_ancestors

MIN_NODES = 8192  # capacity of a new tree

Tree = TypeVar("Tree", TokenTree, HistoryTree)


class LMStream(AligningStream):
    """A stream with a tree of hypotheses, whose nodes have states of the language model."""

    beam: Any

    def __init__(
        self,
        limits: Limits,
        scorer: Scorer,
        *,
        lm: LM | None,
        vocab_size: int,
        nbest: int,
        separator: int | None = None,
    ) -> None:
        super().__init__(vocab_size=vocab_size, blank=limits.blank, nbest=nbest, separator=separator)
        self.neural_lm = NeuralLMTable(lm, size=limits.size) if isinstance(lm, NeuralLM) else None
        self.limits = limits
        self.scorer = scorer if self.neural_lm is None else scorer._replace(table=self.neural_lm.table)

    @abstractmethod
    def advance(self, frames: Doubles) -> None:
        """Run the kernel over some frames with the language model scores that are known."""

    @abstractmethod
    def live(self) -> npt.NDArray[np.int32]:
        """The nodes of all live hypotheses."""

    @abstractmethod
    def tree(self) -> Any:
        """The tree of these nodes."""

    @abstractmethod
    def labels(self) -> npt.NDArray[np.int32]:
        """The last token, or word, of each node."""

    def commit(self, node: int) -> None:
        self.beam.counters[COMMITTED] = node

    def process(self, frames: Doubles) -> None:
        if self.neural_lm is None:
            self.advance(frames)
            return
        for frame in frames:
            self.advance(frame[None])
            live, tree = self.live(), self.tree()
            last_ids = self.scorer.vocabulary_ids[self.labels()[live]]
            self.neural_lm.update(tree.lm_states, live, parents=tree.parents, last_ids=last_ids)


def tree_capacity(size: int) -> int:
    """The number of nodes that a new tree has room for, given the beam size."""
    return max(MIN_NODES, 1 << (4 * size).bit_length())


def compact(tree: Tree, labels: str, *, live: npt.NDArray[np.int32], counters: npt.NDArray[np.int64]) -> Tree:
    """Keep only the live nodes and their ancestors, in arrays of twice the size if they are many.

    ``labels`` names the field with the label of each node; ``live`` and the nodes in ``counters`` are renumbered.
    """
    marked = mark_ancestors(tree.parents, live)
    kept, new_ids = np.flatnonzero(marked), np.cumsum(marked, dtype=np.int32) - 1
    factor = 2 if 2 * len(kept) + 4 * len(live) > len(tree.parents) else 1
    arrays = {}
    for name in set(tree._fields) - {"child_table"}:
        old = getattr(tree, name)
        arrays[name] = np.empty(factor * len(old), old.dtype)
        arrays[name][: len(kept)] = old[kept]
    arrays["parents"][1 : len(kept)] = new_ids[arrays["parents"][1 : len(kept)]]
    table = np.empty(factor * len(tree.child_table), np.int32)
    fill_child_table(table, arrays["parents"], arrays[labels], len(kept))
    live[:] = new_ids[live]
    counters[NODES], counters[LAG_NODE:] = len(kept), new_ids[counters[LAG_NODE:]]
    return tree._replace(child_table=table, **arrays)
