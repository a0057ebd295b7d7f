"""Words of a lexicon in a beam, heard frame by frame; the work is done by ``kernels.lexicon_beam``."""

import math

import numpy as np
import numpy.typing as npt

from seqloom.decoding.frames.aligning_stream import CommonPrefix, Doubles, UnalignedTranscript, weighted
from seqloom.decoding.frames.language_models import Language
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.frames.lm_stream import LMStream
from seqloom.decoding.frames.node_arrays import compact, room
from seqloom.kernels import lexicon_beam as kernel
from seqloom.kernels import lexicon_end
from seqloom.kernels import lexicon_state as state
from seqloom.kernels.language import NGRAM, Scorer
from seqloom.kernels.prefix_beam import TOLD, Limits
from seqloom.kernels.pruning import common, lineage

CANDIDATES = 256  # at least, before the worst are dropped to make room
HISTORY = ("states", "language", "gains", "begun", "ended")


class LexiconStream(LMStream):
    """The search for words of a lexicon."""

    beam: state.Words
    label = "words"

    def __init__(
        self,
        limits: Limits,
        scorer: Scorer,
        *,
        lexicon: Lexicon,
        tree: state.Tree,
        language: Language | None,
        symbols: int,
        best: int,
    ) -> None:
        super().__init__(limits, scorer, language=language, symbols=symbols, best=best, separator=lexicon.separator)
        self.lexicon, self.tree = lexicon, tree
        self.beam = _root(limits.size, symbols, start=scorer.start, fan=tree.fan, lag=limits.lag)

    def advance(self, frames: Doubles) -> None:
        while len(frames := frames[kernel.hear(self.beam, self.tree, self.scorer, self.limits, frames, self.count) :]):
            live = self.live()
            self.beam = compact(self.beam, live, label=self.label, others=HISTORY)
            state.index(self.beam, self.tree)
            if self.fusion is not None:
                self.fusion.renumber(self.beam.states[live], live)

    def ranked(self, count: int) -> list[UnalignedTranscript]:
        ways = np.empty((2, self.limits.size * (1 + self.tree.homographs)), np.int32)
        separator = -1 if self.lexicon.separator is None else self.lexicon.separator
        number = lexicon_end.complete(self.beam, self.tree, separator, ways)
        places, words = ways = ways[:, :number]
        rewards = self.rate(ways)
        histories = self.beam.history[places]
        bonus = np.where(words >= 0, self.scorer.gains[words], 0.0)
        gains = self.beam.gains[histories] + bonus + weighted(self.scorer.weight, rewards)
        language = self.beam.language[histories] + rewards
        paths = self.beam.ends[2, places]
        same: dict[tuple[int, int], list[int]] = {}  # ways by what they say, however it is spelt
        before, last = self.beam.parents[histories], self.beam.words[histories]
        said = np.where(words >= 0, [histories, words], [before, last])
        for way in np.flatnonzero(gains > -math.inf).tolist():
            same.setdefault((int(said[0, way]), int(said[1, way])), []).append(way)
        found = []
        for equal in same.values():
            best, total = equal[0], float(paths[equal[0]])
            if len(equal) > 1:
                best, total = max(equal, key=paths.__getitem__), float(np.logaddexp.reduce(paths[equal]))
            found.append((total + float(gains[best]), total, best))
        found.sort(key=lambda one: -one[0])
        return [
            self._found(self._said(histories[way], words[way]), score, total, float(language[way]))
            for score, total, way in found[:count]
        ]

    def rate(self, ways: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:  # (2, W) → (W,)
        """log p of the word that ends each way, and of the end, by the language model."""
        word, end = lexicon_end.rate(self.beam, self.scorer, ways, ways.shape[1])
        if self.fusion is not None:
            later = np.flatnonzero((ways[1] >= 0) & (word > -math.inf))
            rows = self.beam.states[self.beam.history[ways[0, later]]]
            end[later] = self.fusion.ends(rows, self.scorer.numbers[ways[1, later]])
        return np.asarray(word + end)

    def shared(self) -> CommonPrefix:
        live = self.live()
        if not len(live):
            return CommonPrefix(self._found([], -math.inf, -math.inf, 0.0), [], 0)
        totals = self.beam.ends[2, : len(live)]
        scores = totals + self.beam.gains[live]
        best = int((scores + self.tree.ahead[self.beam.node[: len(live)]]).argmax())
        told, all_have = self.beam.counts[TOLD], common(self.beam.parents, live)
        words: list[int] = self.beam.words[lineage(self.beam.parents, live[best], told)].tolist()
        count = len(lineage(self.beam.parents, all_have, told))
        language, node = float(self.beam.language[live[best]]), self.beam.node[best]
        rest = [*map(self._spellings, words[count:]), *([[self._path(node)]] if node else [])]
        found = self._found(words[:count], float(scores[best]), float(totals[best]), language)
        return CommonPrefix(found, rest, all_have)

    def live(self) -> npt.NDArray[np.int32]:
        return self.beam.history[: self.beam.counts[state.ALIVE]]

    def _said(self, history: int, word: int = state.NOTHING) -> list[int]:
        words: list[int] = self.beam.words[lineage(self.beam.parents, history, 0)].tolist()
        return words if word == state.NOTHING else [*words, int(word)]

    def _spellings(self, word: int) -> list[list[int]]:
        nodes, first = self.lexicon.leaves
        return [self._path(node) for node in nodes[first[word] : first[word + 1]].tolist()]

    def _path(self, node: int) -> list[int]:
        symbols: list[int] = self.lexicon.symbols[lineage(self.lexicon.parents, node, 0)].tolist()
        return symbols

    def _found(self, words: list[int], score: float, acoustic: float, language: float) -> UnalignedTranscript:
        return UnalignedTranscript(words, [self._spellings(word) for word in words], score, acoustic, language)


def tree(lexicon: Lexicon, scorer: Scorer, *, language: Language | None) -> state.Tree:
    """The lexicon as a kernel reads it, with the most that the words below each node can be worth; it is kept."""
    key = (language, scorer.weight, scorer.most, float(scorer.gains.min()))
    if lexicon.tree is not None and lexicon.tree[0] == key:
        kept: state.Tree = lexicon.tree[1]
        return kept
    worth = scorer.gains.copy()
    if scorer.kind == NGRAM:
        single = scorer.log_probabilities[1 + scorer.numbers].astype(np.float64)
        worth += np.where(scorer.numbers < 0, -math.inf, weighted(scorer.weight, single))
    ahead, counts = np.full(len(lexicon.symbols), -math.inf), np.diff(lexicon.words_first)
    np.maximum.at(ahead, np.repeat(np.arange(len(counts)), counts), worth[lexicon.words_at])
    lexicon_end.lift(ahead, lexicon.parents)
    links = np.zeros((len(ahead) + 1, 4), np.int32)
    links[:-1, state.SYMBOL], links[:-1, state.PARENT] = lexicon.symbols, lexicon.parents
    links[:, state.CHILDREN], links[:, state.WORDS] = lexicon.first, lexicon.words_first
    varied = np.bincount(lexicon.words_at, minlength=len(lexicon)) > 1
    made = state.Tree(
        links,
        words_at=lexicon.words_at,
        ahead=ahead,
        fan=int((np.diff(lexicon.first) + np.diff(lexicon.words_first[lexicon.first])).max()),
        homographs=int(counts.max()),
        varied=varied,
        various=bool(varied.any()),
    )
    lexicon.tree = key, made
    return made


def _root(size: int, symbols: int, *, start: int, fan: int, lag: int) -> state.Words:
    nodes, candidates = room(size), max(4 * size, CANDIDATES) + fan
    keys, groups = 1 << (4 * size).bit_length(), 1 << (2 * candidates).bit_length()
    beam = state.Words(
        counts=np.array([1, 1, 0, 0, 0]),
        history=np.zeros(size, np.int32),
        node=np.zeros(size, np.int32),
        last=np.full(size, -1, np.int32),
        ends=np.zeros((3, size)),
        parents=np.full(nodes, -1, np.int32),
        words=np.full(nodes, -1, np.int32),
        states=np.full(nodes, start, np.int32),
        language=np.zeros(nodes),
        gains=np.zeros(nodes),
        begun=np.zeros(nodes, np.int64),
        ended=np.zeros(nodes, np.int64),
        table=np.full(2 * nodes, -1, np.int32),
        keys=np.full(keys, -1),
        places=np.zeros(keys, np.int32),
        fed=np.zeros(size, np.int32),
        tried=np.empty(symbols),
        values=np.empty(candidates),
        origins=np.empty((4, candidates), np.int32),
        groups=np.empty(groups, np.int64),
        leaders=np.empty(groups, np.int32),
        held=np.empty((3, size)),
        fresh=np.empty((3, size)),
        chosen=np.empty((3, size), np.int32),
        joined=np.empty(candidates, np.int32),
        sums=np.empty(candidates),
        came=np.zeros(size, np.int32),
        back=np.zeros((max(lag, 1), size), np.int32),
    )
    beam.ends[1] = -math.inf
    return beam
