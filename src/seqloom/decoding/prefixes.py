"""Prefixes of symbols in a beam, heard frame by frame; the work is done by ``kernels.prefix_beam``."""

import math

import numpy as np

from seqloom.decoding.frames import Frames, Guide
from seqloom.decoding.language import scorer
from seqloom.decoding.listening import Found, Listening
from seqloom.kernels import prefix_beam as kernel

NODES = 4096  # of the tree, at first


class PrefixStream(Listening):
    """The search without a lexicon."""

    def __init__(self, limits: kernel.Limits, *, symbols: int, guide: Guide | None, best: int) -> None:
        super().__init__(symbols=symbols, blank=limits.blank, best=best)
        self.limits = limits
        self.scorer = scorer(guide or Guide(), count=symbols)
        self.beam = _root(limits.size, symbols, start=self.scorer.start)

    def hear(self, frames: Frames) -> None:
        while len(frames := frames[kernel.hear(self.beam, self.scorer, self.limits, frames) :]):
            kernel.compact(self.beam)
            if 2 * (self.beam.counts[kernel.NODES] + self.limits.size) > len(self.beam.parents):
                self.beam = _larger(self.beam)

    def ranked(self, count: int) -> list[Found]:
        endings = kernel.endings(self.beam, self.scorer)
        alive = self.beam.counts[kernel.ALIVE]
        nodes, totals = self.beam.node[:alive], self.beam.total[:alive]
        language = self.beam.language[nodes] + endings
        scores = totals + self.beam.gains[nodes] + (self.scorer.weight * endings if self.scorer.kind else 0.0)
        order = np.argsort(-scores, kind="stable")[:count].tolist()
        return [
            self._found(nodes[place], scores[place], totals[place], language[place])
            for place in order
            if scores[place] > -math.inf
        ]

    def shared(self) -> tuple[Found, list[int]]:
        alive = self.beam.counts[kernel.ALIVE]
        nodes, totals = self.beam.node[:alive], self.beam.total[:alive]
        if not alive:
            return self._found(0, -math.inf, -math.inf, 0.0), []
        scores = totals + self.beam.gains[nodes]
        best = int(scores.argmax())
        found = self._found(kernel.shared(self.beam), scores[best], totals[best], self.beam.language[nodes[best]])
        return found, self._spell(nodes[best])

    def _found(self, node: int, score: float, acoustic: float, language: float) -> Found:
        return Found(self._spell(node), [], [], [], float(score), float(acoustic), float(language))

    def _spell(self, node: int) -> list[int]:
        symbols: list[int] = kernel.spell(self.beam.parents, self.beam.symbols, node).tolist()
        return symbols


def _root(size: int, symbols: int, *, start: int) -> kernel.Prefixes:
    nodes = _room(size)
    room = 4 * size + symbols
    return kernel.Prefixes(
        counts=np.array([1, 1, 0]),
        node=np.zeros(size, np.int32),
        blank=np.zeros(size),
        symbol=np.full(size, -math.inf),
        total=np.zeros(size),
        parents=np.full(nodes, -1, np.int32),
        symbols=np.full(nodes, -1, np.int32),
        places=np.zeros(nodes, np.int32),
        states=np.full(nodes, start, np.int32),
        language=np.zeros(nodes),
        gains=np.zeros(nodes),
        table=np.full(2 * nodes, -1, np.int32),
        tried=np.empty(symbols),
        order=np.empty(symbols, np.int32),
        marks=np.full((size, symbols), -1),
        values=np.empty(room),
        origins=np.empty((3, room), np.int32),
        rewards=np.zeros((size, symbols)),
        held=np.empty((3, size)),
        fresh=np.empty((3, size)),
        chosen=np.empty(size, np.int32),
    )


def _room(size: int) -> int:
    return max(NODES, 1 << (4 * size).bit_length())


def _larger(beam: kernel.Prefixes) -> kernel.Prefixes:
    """The same with twice as many nodes."""
    names = ("parents", "symbols", "places", "states", "language", "gains")
    grown = {name: np.concatenate([getattr(beam, name)] * 2) for name in names}
    made = beam._replace(**grown, table=np.empty(2 * len(beam.table), np.int32))
    kernel.compact(made)
    return made
