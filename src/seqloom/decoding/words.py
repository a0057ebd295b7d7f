"""Words of a lexicon in a beam, heard frame by frame; the work is done by ``kernels.lexicon_beam``."""

import math

import numpy as np
import numpy.typing as npt

from seqloom.decoding.frames import Frames
from seqloom.decoding.lexicon import Lexicon
from seqloom.decoding.listening import Found, Listening
from seqloom.decoding.nodes import compact, room
from seqloom.kernels import lexicon_beam as kernel
from seqloom.kernels.language import NGRAM, Scorer
from seqloom.kernels.prefix_beam import Limits
from seqloom.kernels.pruning import common, lineage

Way = tuple[int, int, int]  # a history, a word behind it or -1, and the node of the lexicon at which that ended


class WordStream(Listening):
    """The search for words of a lexicon."""

    def __init__(
        self, limits: Limits, scorer: Scorer, *, lexicon: Lexicon, tree: kernel.Tree, symbols: int, best: int
    ) -> None:
        super().__init__(symbols=symbols, blank=limits.blank, best=best)
        self.limits, self.scorer, self.lexicon, self.tree = limits, scorer, lexicon, tree
        self.beam = _root(limits.size, symbols, start=scorer.start, fan=_fan(tree))

    def hear(self, frames: Frames) -> None:
        while len(frames := frames[kernel.hear(self.beam, self.tree, self.scorer, self.limits, frames) :]):
            names = ("leaves", "states", "language", "gains")
            self.beam = compact(self.beam, self._live(), label="words", others=names)
            kernel.index(self.beam, self.tree)

    def ranked(self, count: int) -> list[Found]:
        most = 1 + int(np.diff(self.tree.words_first).max())
        ways = np.empty((3, self.limits.size * most), np.int32)
        scores = np.empty((3, self.limits.size * most))
        separator = -1 if self.lexicon.separator is None else self.lexicon.separator
        found = kernel.complete(self.beam, self.tree, self.scorer, separator, ways, scores)
        one: dict[tuple[int, int], tuple[float, Way]] = {}  # by history and word: the paths of all its spellings
        rest: dict[tuple[int, int], tuple[float, float]] = {}
        for way, (acoustic, language, gain) in zip(
            ways[:, :found].T.tolist(), scores[:, :found].T.tolist(), strict=True
        ):
            history, word, _ = way
            key = (history, word) if word >= 0 else (int(self.beam.parents[history]), int(self.beam.words[history]))
            before, best = one.get(key, (-math.inf, way))
            one[key] = float(np.logaddexp(before, acoustic)), best
            rest[key] = language, gain
        totals = sorted(((one[key][0] + rest[key][1], key) for key in one), key=lambda pair: -pair[0])
        return [
            self._found(one[key][1], score, one[key][0], rest[key][0])
            for score, key in totals[:count]
            if score > -math.inf
        ]

    def shared(self) -> tuple[Found, list[int]]:
        live = self._live()
        if not len(live):
            return self._found((0, -1, 0), -math.inf, -math.inf, 0.0), []
        totals = self.beam.ends[2, : len(live)]
        scores = totals + self.beam.gains[live]
        best = int((scores + self.tree.ahead[self.beam.node[: len(live)]]).argmax())
        shared = common(self.beam.parents, live)
        language = float(self.beam.language[live[best]])
        found = self._found((shared, -1, 0), float(scores[best]), float(totals[best]), language)
        history = self._found((live[best], -1, 0), 0.0, 0.0, 0.0)
        return found, history.symbols + self._path(self.beam.node[best])

    def _live(self) -> npt.NDArray[np.int32]:
        return self.beam.history[: self.beam.counts[kernel.ALIVE]]

    def _path(self, node: int) -> list[int]:
        symbols: list[int] = self.tree.symbols[lineage(self.lexicon.parents, node)].tolist()
        return symbols

    def _found(self, way: Way, score: float, acoustic: float, language: float) -> Found:
        history, word, node = way
        line = lineage(self.beam.parents, history)
        words, leaves = self.beam.words[line].tolist(), self.beam.leaves[line].tolist()
        if word >= 0:
            words, leaves = [*words, word], [*leaves, node]
        symbols: list[int] = []
        starts, ends = [], []
        for leaf in leaves:
            spelling = self._path(leaf)
            starts.append(len(symbols))
            symbols += spelling
            ends.append(len(symbols) - (spelling[-1] == self.lexicon.separator))
        return Found(symbols, words, ends, starts, score, acoustic, language)


def tree(lexicon: Lexicon, scorer: Scorer) -> kernel.Tree:
    """The lexicon as a kernel reads it, with the most that the words below each node can be worth."""
    worth = scorer.gains.copy()
    if scorer.kind == NGRAM:
        single = scorer.log_probabilities[1 + scorer.numbers].astype(np.float64)
        worth += np.where(scorer.numbers < 0, -math.inf, scorer.weight * np.maximum(single, -1e30))
    ahead = np.full(len(lexicon.symbols), -math.inf)
    counts = np.diff(lexicon.words_first)
    np.maximum.at(ahead, np.repeat(np.arange(len(counts)), counts), worth[lexicon.words_at])
    kernel.lift(ahead, lexicon.parents)
    return kernel.Tree(lexicon.symbols, lexicon.first, lexicon.words_at, lexicon.words_first, ahead)


def _fan(tree: kernel.Tree) -> int:
    """The most candidates that one hypothesis can make in a frame."""
    return int((np.diff(tree.first) + np.diff(tree.words_first[tree.first])).max())


def _root(size: int, symbols: int, *, start: int, fan: int) -> kernel.Words:
    nodes, candidates = room(size), 4 * size + fan
    keys = 1 << (4 * size).bit_length()
    beam = kernel.Words(
        counts=np.array([1, 1]),
        history=np.zeros(size, np.int32),
        node=np.zeros(size, np.int32),
        last=np.full(size, -1, np.int32),
        ends=np.zeros((3, size)),
        parents=np.full(nodes, -1, np.int32),
        words=np.full(nodes, -1, np.int32),
        leaves=np.zeros(nodes, np.int32),
        states=np.full(nodes, start, np.int32),
        language=np.zeros(nodes),
        gains=np.zeros(nodes),
        table=np.full(2 * nodes, -1, np.int32),
        keys=np.full(keys, -1),
        places=np.zeros(keys, np.int32),
        tried=np.empty(symbols),
        values=np.empty(candidates),
        origins=np.empty((3, candidates), np.int32),
        held=np.empty((3, size)),
        fresh=np.empty((3, size)),
        chosen=np.empty((3, size), np.int32),
    )
    beam.ends[1] = -math.inf
    return beam
