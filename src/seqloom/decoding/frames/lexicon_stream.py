"""Lexicon beam search over frames that arrive in chunks; ``kernels.frame_beam.lexicon_beam`` does the work."""

import math

import numpy as np
import numpy.typing as npt

from seqloom.decoding.frames.aligning_stream import CommonPrefix, Doubles, UnalignedTranscript, weighted
from seqloom.decoding.frames.language_models import LM
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.frames.lm_stream import LMStream, compact, tree_capacity
from seqloom.kernels.frame_beam import lexicon_beam as kernel
from seqloom.kernels.frame_beam import lexicon_state as state
from seqloom.kernels.frame_beam.ngram_scorer import NGRAM, Scorer
from seqloom.kernels.frame_beam.prefix_beam import COMMITTED, Backpointers, Limits
from seqloom.kernels.frame_beam.primitives import common_ancestor, path_between

MIN_CANDIDATES = 256  # capacity before the worst candidates are dropped


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
        lm: LM | None,
        vocab_size: int,
        nbest: int,
    ) -> None:
        super().__init__(limits, scorer, lm=lm, vocab_size=vocab_size, nbest=nbest, separator=lexicon.separator)
        self.lexicon, self.lexicon_tree = lexicon, tree
        self.beam = _initial_state(limits.size, vocab_size, start=scorer.start, fanout=tree.max_fanout, lag=limits.lag)

    def advance(self, frames: Doubles) -> None:
        tree = self.lexicon_tree
        while len(frames := frames[kernel.advance(self.beam, tree, self.scorer, self.limits, frames, self.nbest) :]):
            live = self.live()
            histories = compact(self.beam.histories, "words", live=live, counters=self.beam.counters)
            self.beam = self.beam._replace(histories=histories)
            state.rebuild_index(self.beam, tree)
            if self.neural_lm is not None:
                self.neural_lm.renumber(histories.lm_states[live], live)

    def best_hypotheses(self, count: int) -> list[UnalignedTranscript]:
        # An ending is a live hypothesis with the word that it completes, or with none between two words.
        buffer = np.empty((2, self.limits.size * (1 + self.lexicon_tree.max_homographs)), np.int32)
        separator = -1 if self.lexicon.separator is None else self.lexicon.separator
        slots, words = endings = buffer[:, : kernel.find_endings(self.beam, self.lexicon_tree, separator, buffer)]
        lm_log_probs = self._ending_log_probs(endings)
        tree, histories = self.beam.histories, self.beam.live.history[slots]
        bonuses = np.where(words >= 0, self.scorer.bonuses[words], 0.0)
        lm_scores = tree.lm_scores[histories] + bonuses + weighted(self.scorer.weight, lm_log_probs)
        language = tree.lm_log_probs[histories] + lm_log_probs
        paths = self.beam.live.log_probs[state.TOTAL, slots]
        # Endings with the same words, however they are spelled, are one transcript.
        same_words: dict[tuple[int, int], list[int]] = {}
        keys = np.where(words >= 0, [histories, words], [tree.parents[histories], tree.words[histories]])
        first, last = keys.tolist()
        totals, scores = paths.tolist(), lm_scores.tolist()
        for ending in np.flatnonzero(lm_scores > -math.inf).tolist():
            same_words.setdefault((first[ending], last[ending]), []).append(ending)
        candidates = []
        for group in same_words.values():
            best, total = group[0], float(totals[group[0]])
            if len(group) > 1:
                best = max(group, key=totals.__getitem__)
                total = float(totals[best] if self.limits.viterbi else np.logaddexp.reduce(paths[group]))
            candidates.append((total + scores[best], total, best))
        candidates.sort(key=lambda candidate: -candidate[0])
        return [
            self._transcript(self._words(histories[ending], words[ending]), score, total, float(language[ending]))
            for score, total, ending in candidates[:count]
        ]

    def _ending_log_probs(self, endings: npt.NDArray[np.int32]) -> Doubles:  # (2, E) → (E,)
        """The language model's log-probability of the last word and of the end."""
        words, ends = kernel.score_endings(self.beam, self.scorer, endings, endings.shape[1])
        if self.neural_lm is not None:
            later = np.flatnonzero((endings[1] >= 0) & (words > -math.inf))
            rows = self.beam.histories.lm_states[self.beam.live.history[endings[0, later]]]
            ends[later] = self.neural_lm.end_log_probs(rows, self.scorer.vocabulary_ids[endings[1, later]])
        return np.asarray(words + ends)

    def common_prefix(self) -> CommonPrefix:
        live, tree = self.live(), self.beam.histories
        if not len(live):
            return CommonPrefix(self._transcript([], -math.inf, -math.inf, 0.0), [], 0)
        totals = self.beam.live.log_probs[state.TOTAL, : len(live)]
        scores = totals + tree.lm_scores[live]
        best = int((scores + self.lexicon_tree.lookahead[self.beam.live.node[: len(live)]]).argmax())
        committed, node = self.beam.counters[COMMITTED], common_ancestor(tree.parents, live)
        words: list[int] = tree.words[path_between(tree.parents, live[best], committed)].tolist()
        count = len(path_between(tree.parents, node, committed))
        language, partial = float(tree.lm_log_probs[live[best]]), self.beam.live.node[best]
        rest = [*map(self._spellings, words[count:]), *([[self._spelling(partial)]] if partial else [])]
        new = self._transcript(words[:count], float(scores[best]), float(totals[best]), language)
        return CommonPrefix(new, rest, node)

    def live(self) -> npt.NDArray[np.int32]:
        return self.beam.live.history[: self.beam.counters[state.LIVE]]

    def labels(self) -> npt.NDArray[np.int32]:
        return self.beam.histories.words

    def tree(self) -> state.HistoryTree:
        return self.beam.histories

    def _words(self, history: int, last: int) -> list[int]:
        tree = self.beam.histories
        words: list[int] = tree.words[path_between(tree.parents, history, 0)].tolist()
        return words if last == state.NO_WORD else [*words, int(last)]

    def _spellings(self, word: int) -> list[list[int]]:
        nodes, first = self.lexicon.leaves
        return [self._spelling(node) for node in nodes[first[word] : first[word + 1]].tolist()]

    def _spelling(self, node: int) -> list[int]:
        tokens: list[int] = self.lexicon.tokens[path_between(self.lexicon.parents, node, 0)].tolist()
        return tokens

    def _transcript(self, words: list[int], score: float, acoustic: float, language: float) -> UnalignedTranscript:
        return UnalignedTranscript(words, [self._spellings(word) for word in words], score, acoustic, language)


def build_tree(lexicon: Lexicon, scorer: Scorer, *, lm: LM | None) -> state.LexiconTree:
    """The lexicon as the kernel reads it, with the best score of the words below each node; the last one is cached."""
    key = (lm, scorer.weight, scorer.max_bonus, float(scorer.bonuses.min()))
    if lexicon.tree is not None and lexicon.tree[0] == key:
        cached: state.LexiconTree = lexicon.tree[1]
        return cached
    word_scores = scorer.bonuses.copy()
    if scorer.kind == NGRAM:
        unigrams = scorer.log_probs[1 + scorer.vocabulary_ids].astype(np.float64)
        word_scores += np.where(scorer.vocabulary_ids < 0, -math.inf, weighted(scorer.weight, unigrams))
    lookahead, counts = np.full(len(lexicon.tokens), -math.inf), np.diff(lexicon.words_first)
    np.maximum.at(lookahead, np.repeat(np.arange(len(counts)), counts), word_scores[lexicon.words_at])
    kernel.propagate_to_ancestors(lookahead, lexicon.parents)
    links = np.zeros((len(lookahead) + 1, 4), np.int32)
    links[:-1, state.TOKEN], links[:-1, state.PARENT] = lexicon.tokens, lexicon.parents
    links[:, state.CHILDREN], links[:, state.WORDS] = lexicon.first, lexicon.words_first
    has_variants = np.bincount(lexicon.words_at, minlength=len(lexicon)) > 1
    tree = state.LexiconTree(
        links,
        words_at=lexicon.words_at,
        lookahead=lookahead,
        max_fanout=int((np.diff(lexicon.first) + np.diff(lexicon.words_first[lexicon.first])).max()),
        max_homographs=int(counts.max()),
        has_variants=has_variants,
        any_variants=bool(has_variants.any()),
    )
    lexicon.tree = key, tree
    return tree


def _initial_state(size: int, vocab_size: int, *, start: int, fanout: int, lag: int) -> state.LexiconBeamState:
    nodes, candidates = tree_capacity(size), max(4 * size, MIN_CANDIDATES) + fanout
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
            first_token_frame=np.zeros(nodes, np.int64),
            next_word_frame=np.zeros(nodes, np.int64),
            child_table=np.full(2 * nodes, -1, np.int32),
        ),
        live_index=state.LiveIndex(keys=np.full(keys, -1), slots=np.zeros(keys, np.int32)),
        candidates=state.LexiconCandidates(
            scores=np.empty(candidates),
            origins=np.empty((candidates, 4), np.int32),
            group_keys=np.empty(groups, np.int64),
            group_leaders=np.empty(groups, np.int32),
            merged_words=np.empty(candidates, np.int32),
            merged_log_probs=np.empty(candidates),
        ),
        work=state.SearchWorkspace(
            log_probs=np.empty(vocab_size),
            successors=np.zeros(size, np.int32),
            children=np.zeros(size, np.int64),
            staying=np.empty((3, size)),
            selected=np.empty((3, size)),
            selected_keys=np.empty((3, size), np.int32),
        ),
        backpointers=Backpointers(staying=np.zeros(size, np.int32), ring=np.zeros((max(lag, 1), size), np.int32)),
    )
    beam.live.log_probs[state.TOKEN_END] = -math.inf
    return beam
