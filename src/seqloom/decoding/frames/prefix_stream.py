"""Prefixes of symbols in a beam, heard frame by frame; the work is done by ``kernels.prefix_beam``."""

import math

import numpy as np
import numpy.typing as npt

from seqloom.decoding.frames.aligning_stream import CommonPrefix, Doubles, UnalignedTranscript, weighted
from seqloom.decoding.frames.language_models import Language
from seqloom.decoding.frames.lm_stream import LMStream
from seqloom.decoding.frames.node_arrays import compact, room
from seqloom.kernels import prefix_beam as kernel
from seqloom.kernels.language import Scorer
from seqloom.kernels.pruning import common, lineage


class PrefixStream(LMStream):
    """The search without a lexicon."""

    beam: kernel.Prefixes
    label = "symbols"

    def __init__(
        self, limits: kernel.Limits, scorer: Scorer, *, language: Language | None, symbols: int, best: int
    ) -> None:
        super().__init__(limits, scorer, language=language, symbols=symbols, best=best)
        self.beam = _root(limits.size, symbols, start=scorer.start, lag=limits.lag)

    def advance(self, frames: Doubles) -> None:
        while len(frames := frames[kernel.hear(self.beam, self.scorer, self.limits, frames) :]):
            live = self.live()
            self.beam = compact(self.beam, live, label=self.label, others=("places", "states", "language", "gains"))
            if self.fusion is not None:
                self.fusion.renumber(self.beam.states[live], live)

    def ranked(self, count: int) -> list[UnalignedTranscript]:
        nodes, totals = self.live(), self.beam.total
        endings = np.zeros(len(nodes)) if self.scorer.end < 0 else kernel.endings(self.beam, self.scorer)
        language = self.beam.language[nodes] + endings
        scores = totals[: len(nodes)] + self.beam.gains[nodes] + weighted(self.scorer.weight, endings)
        order = [place for place in np.argsort(-scores, kind="stable").tolist() if scores[place] > -math.inf]
        return [
            UnalignedTranscript(
                [], [[self._spell(nodes[at])]], float(scores[at]), float(totals[at]), float(language[at])
            )
            for at in order[:count]
        ]

    def shared(self) -> CommonPrefix:
        nodes, totals = self.live(), self.beam.total
        if not len(nodes):
            return CommonPrefix(UnalignedTranscript([], [], -math.inf, -math.inf, 0.0), [], 0)
        scores = totals[: len(nodes)] + self.beam.gains[nodes]
        best = int(scores.argmax())
        told, all_have = self.beam.counts[kernel.TOLD], common(self.beam.parents, nodes)
        symbols, count = self._spell(nodes[best], told), len(lineage(self.beam.parents, all_have, told))
        language = float(self.beam.language[nodes[best]])
        new = [[[symbol]] for symbol in symbols[:count]]
        return CommonPrefix(
            UnalignedTranscript([], new, float(scores[best]), float(totals[best]), language),
            [[symbols[count:]]],
            all_have,
        )

    def live(self) -> npt.NDArray[np.int32]:
        return self.beam.node[: self.beam.counts[kernel.ALIVE]]

    def _spell(self, node: int, above: int = 0) -> list[int]:
        symbols: list[int] = self.beam.symbols[lineage(self.beam.parents, node, above)].tolist()
        return symbols


def _root(size: int, symbols: int, *, start: int, lag: int) -> kernel.Prefixes:
    nodes, candidates = room(size), 4 * size + symbols
    return kernel.Prefixes(
        counts=np.array([1, 1, 0, 0, 0]),
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
        values=np.empty(candidates),
        origins=np.empty((3, candidates), np.int32),
        rewards=np.zeros((size, symbols)),
        held=np.empty((3, size)),
        fresh=np.empty((3, size)),
        chosen=np.empty(size, np.int32),
        came=np.zeros(size, np.int32),
        back=np.zeros((max(lag, 1), size), np.int32),
    )
