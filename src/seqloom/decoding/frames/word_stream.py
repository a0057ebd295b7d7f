"""Words of a lexicon in a beam, heard frame by frame; the work is done by ``kernels.frame_beam.lexicon_beam``."""

import math

import numpy as np
import numpy.typing as npt

from seqloom.decoding.frames.aligning_stream import CommonPrefix, Doubles, UnalignedTranscript, weighted
from seqloom.decoding.frames.language_models import Language
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.frames.lm_stream import LMStream
from seqloom.decoding.frames.node_arrays import compact, room
from seqloom.kernels.frame_beam import lexicon_beam as kernel
from seqloom.kernels.frame_beam import lexicon_state as state
from seqloom.kernels.frame_beam.ngram_scorer import NGRAM, Scorer
from seqloom.kernels.frame_beam.prefix_beam import COMMITTED, Backpointers, Limits
from seqloom.kernels.frame_beam.primitives import common_ancestor, path_between

CANDIDATES = 256  # at least, before the worst are dropped to make room


class LexiconStream(LMStream):
    """The search for words of a lexicon."""

    beam: state.LexiconBeamState

    def __init__(
        self,
        limits: Limits,
        scorer: Scorer,
        *,
        lexicon: Lexicon,
        tree: state.LexiconTree,
        language: Language | None,
        symbols: int,
        best: int,
    ) -> None:
        super().__init__(limits, scorer, language=language, symbols=symbols, best=best, separator=lexicon.separator)
        self.lexicon, self.lexicon_tree = lexicon, tree
        self.beam = _root(limits.size, symbols, start=scorer.start, fan=tree.max_fanout, lag=limits.lag)

    def advance(self, frames: Doubles) -> None:
        tree = self.lexicon_tree
        while len(frames := frames[kernel.advance(self.beam, tree, self.scorer, self.limits, frames, self.count) :]):
            live = self.live()
            histories = compact(self.beam.histories, "words", live=live, counters=self.beam.counters)
            self.beam = self.beam._replace(histories=histories)
            state.rebuild_index(self.beam, tree)
            if self.fusion is not None:
                self.fusion.renumber(histories.lm_states[live], live)

    def ranked(self, count: int) -> list[UnalignedTranscript]:
        ways = np.empty((2, self.limits.size * (1 + self.lexicon_tree.max_homographs)), np.int32)
        separator = -1 if self.lexicon.separator is None else self.lexicon.separator
        number = kernel.find_endings(self.beam, self.lexicon_tree, separator, ways)
        places, words = ways = ways[:, :number]
        rewards = self.rate(ways)
        tree, histories = self.beam.histories, self.beam.live.history[places]
        bonus = np.where(words >= 0, self.scorer.bonuses[words], 0.0)
        gains = tree.lm_scores[histories] + bonus + weighted(self.scorer.weight, rewards)
        language = tree.lm_log_probs[histories] + rewards
        paths = self.beam.live.log_probs[state.TOTAL, places]
        same: dict[tuple[int, int], list[int]] = {}  # ways by what they say, however it is spelt
        before, last = tree.parents[histories], tree.words[histories]
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
        word, end = kernel.score_endings(self.beam, self.scorer, ways, ways.shape[1])
        if self.fusion is not None:
            later = np.flatnonzero((ways[1] >= 0) & (word > -math.inf))
            rows = self.beam.histories.lm_states[self.beam.live.history[ways[0, later]]]
            end[later] = self.fusion.ends(rows, self.scorer.vocabulary_ids[ways[1, later]])
        return np.asarray(word + end)

    def shared(self) -> CommonPrefix:
        live, tree = self.live(), self.beam.histories
        if not len(live):
            return CommonPrefix(self._found([], -math.inf, -math.inf, 0.0), [], 0)
        totals = self.beam.live.log_probs[state.TOTAL, : len(live)]
        scores = totals + tree.lm_scores[live]
        best = int((scores + self.lexicon_tree.lookahead[self.beam.live.node[: len(live)]]).argmax())
        told, all_have = self.beam.counters[COMMITTED], common_ancestor(tree.parents, live)
        words: list[int] = tree.words[path_between(tree.parents, live[best], told)].tolist()
        count = len(path_between(tree.parents, all_have, told))
        language, node = float(tree.lm_log_probs[live[best]]), self.beam.live.node[best]
        rest = [*map(self._spellings, words[count:]), *([[self._path(node)]] if node else [])]
        found = self._found(words[:count], float(scores[best]), float(totals[best]), language)
        return CommonPrefix(found, rest, all_have)

    def live(self) -> npt.NDArray[np.int32]:
        return self.beam.live.history[: self.beam.counters[state.LIVE]]

    def labels(self) -> npt.NDArray[np.int32]:
        return self.beam.histories.words

    def tree(self) -> state.HistoryTree:
        return self.beam.histories

    def _said(self, history: int, word: int = state.NO_WORD) -> list[int]:
        tree = self.beam.histories
        words: list[int] = tree.words[path_between(tree.parents, history, 0)].tolist()
        return words if word == state.NO_WORD else [*words, int(word)]

    def _spellings(self, word: int) -> list[list[int]]:
        nodes, first = self.lexicon.leaves
        return [self._path(node) for node in nodes[first[word] : first[word + 1]].tolist()]

    def _path(self, node: int) -> list[int]:
        symbols: list[int] = self.lexicon.symbols[path_between(self.lexicon.parents, node, 0)].tolist()
        return symbols

    def _found(self, words: list[int], score: float, acoustic: float, language: float) -> UnalignedTranscript:
        return UnalignedTranscript(words, [self._spellings(word) for word in words], score, acoustic, language)


def tree(lexicon: Lexicon, scorer: Scorer, *, language: Language | None) -> state.LexiconTree:
    """The lexicon as a kernel reads it, with the most that the words below each node can be worth; it is kept."""
    key = (language, scorer.weight, scorer.max_bonus, float(scorer.bonuses.min()))
    if lexicon.tree is not None and lexicon.tree[0] == key:
        kept: state.LexiconTree = lexicon.tree[1]
        return kept
    worth = scorer.bonuses.copy()
    if scorer.kind == NGRAM:
        single = scorer.log_probs[1 + scorer.vocabulary_ids].astype(np.float64)
        worth += np.where(scorer.vocabulary_ids < 0, -math.inf, weighted(scorer.weight, single))
    ahead, counts = np.full(len(lexicon.symbols), -math.inf), np.diff(lexicon.words_first)
    np.maximum.at(ahead, np.repeat(np.arange(len(counts)), counts), worth[lexicon.words_at])
    kernel.propagate_to_ancestors(ahead, lexicon.parents)
    links = np.zeros((len(ahead) + 1, 4), np.int32)
    links[:-1, state.SYMBOL], links[:-1, state.PARENT] = lexicon.symbols, lexicon.parents
    links[:, state.CHILDREN], links[:, state.WORDS] = lexicon.first, lexicon.words_first
    varied = np.bincount(lexicon.words_at, minlength=len(lexicon)) > 1
    made = state.LexiconTree(
        links,
        words_at=lexicon.words_at,
        lookahead=ahead,
        max_fanout=int((np.diff(lexicon.first) + np.diff(lexicon.words_first[lexicon.first])).max()),
        max_homographs=int(counts.max()),
        has_variants=varied,
        any_variants=bool(varied.any()),
    )
    lexicon.tree = key, made
    return made


def _root(size: int, symbols: int, *, start: int, fan: int, lag: int) -> state.LexiconBeamState:
    nodes, candidates = room(size), max(4 * size, CANDIDATES) + fan
    keys, groups = 1 << (4 * size).bit_length(), 1 << (2 * candidates).bit_length()
    beam = state.LexiconBeamState(
        counters=np.array([1, 1, 0, 0, 0]),
        live=state.LiveHypotheses(
            history=np.zeros(size, np.int32),
            node=np.zeros(size, np.int32),
            last=np.full(size, -1, np.int32),
            log_probs=np.zeros((3, size)),
        ),
        histories=state.HistoryTree(
            parents=np.full(nodes, -1, np.int32),
            words=np.full(nodes, -1, np.int32),
            lm_states=np.full(nodes, start, np.int32),
            lm_log_probs=np.zeros(nodes),
            lm_scores=np.zeros(nodes),
            first_symbol_frame=np.zeros(nodes, np.int64),
            next_word_frame=np.zeros(nodes, np.int64),
            child_table=np.full(2 * nodes, -1, np.int32),
        ),
        live_index=state.LiveIndex(keys=np.full(keys, -1), slots=np.zeros(keys, np.int32)),
        candidates=state.LexiconCandidates(
            scores=np.empty(candidates),
            origins=np.empty((4, candidates), np.int32),
            group_keys=np.empty(groups, np.int64),
            group_leaders=np.empty(groups, np.int32),
            merged_words=np.empty(candidates, np.int32),
            merged_log_probs=np.empty(candidates),
        ),
        work=state.SearchWorkspace(
            log_probs=np.empty(symbols),
            successors=np.zeros(size, np.int32),
            staying=np.empty((3, size)),
            selected=np.empty((3, size)),
            selected_keys=np.empty((3, size), np.int32),
        ),
        backpointers=Backpointers(staying=np.zeros(size, np.int32), ring=np.zeros((max(lag, 1), size), np.int32)),
    )
    beam.live.log_probs[state.SYMBOL_END] = -math.inf
    return beam
