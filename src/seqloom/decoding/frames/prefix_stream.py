"""Prefix beam search over frames that arrive in chunks; ``kernels.frame_beam.prefix_beam`` does the work."""

import math

import numpy as np
import numpy.typing as npt

from seqloom.decoding.frames.aligning_stream import CommonPrefix, Doubles, UnalignedTranscript, weighted
from seqloom.decoding.frames.language_models import LM
from seqloom.decoding.frames.lm_stream import LMStream, compact, tree_capacity
from seqloom.kernels.frame_beam import prefix_beam as kernel
from seqloom.kernels.frame_beam.ngram_scorer import Scorer
from seqloom.kernels.frame_beam.primitives import common_ancestor, path_between


class PrefixStream(LMStream):
    """The search without a lexicon."""

    beam: kernel.PrefixBeamState

    def __init__(self, limits: kernel.Limits, scorer: Scorer, *, lm: LM | None, vocab_size: int, nbest: int) -> None:
        super().__init__(limits, scorer, lm=lm, vocab_size=vocab_size, nbest=nbest)
        self.beam = _initial_state(limits.size, vocab_size, start=scorer.start, lag=limits.lag)

    def advance(self, frames: Doubles) -> None:
        while len(frames := frames[kernel.advance(self.beam, self.scorer, self.limits, frames) :]):
            live = self.live()
            tree = compact(self.beam.tree, "tokens", live=live, counters=self.beam.counters)
            self.beam = self.beam._replace(tree=tree)
            if self.neural_lm is not None:
                self.neural_lm.renumber(tree.lm_states[live], live)

    def best_hypotheses(self, count: int) -> list[UnalignedTranscript]:
        nodes, totals, tree = self.live(), self.beam.live.total, self.beam.tree
        endings = np.zeros(len(nodes)) if self.scorer.end < 0 else kernel.end_log_probs(self.beam, self.scorer)
        language = tree.lm_log_probs[nodes] + endings
        scores = totals[: len(nodes)] + tree.lm_scores[nodes] + weighted(self.scorer.weight, endings)
        order = [index for index in np.argsort(-scores, kind="stable").tolist() if scores[index] > -math.inf]
        return [
            UnalignedTranscript(
                [], [[self._prefix(nodes[at])]], float(scores[at]), float(totals[at]), float(language[at])
            )
            for at in order[:count]
        ]

    def common_prefix(self) -> CommonPrefix:
        nodes, totals, tree = self.live(), self.beam.live.total, self.beam.tree
        if not len(nodes):
            return CommonPrefix(UnalignedTranscript([], [], -math.inf, -math.inf, 0.0), [], 0)
        scores = totals[: len(nodes)] + tree.lm_scores[nodes]
        best = int(scores.argmax())
        committed, node = self.beam.counters[kernel.COMMITTED], common_ancestor(tree.parents, nodes)
        tokens, count = self._prefix(nodes[best], committed), len(path_between(tree.parents, node, committed))
        language = float(tree.lm_log_probs[nodes[best]])
        spellings = [[[token]] for token in tokens[:count]]
        return CommonPrefix(
            UnalignedTranscript([], spellings, float(scores[best]), float(totals[best]), language),
            [[tokens[count:]]],
            node,
        )

    def live(self) -> npt.NDArray[np.int32]:
        return self.beam.live.node[: self.beam.counters[kernel.LIVE]]

    def labels(self) -> npt.NDArray[np.int32]:
        return self.beam.tree.tokens

    def tree(self) -> kernel.TokenTree:
        return self.beam.tree

    def _prefix(self, node: int, above: int = 0) -> list[int]:
        tokens: list[int] = self.beam.tree.tokens[path_between(self.beam.tree.parents, node, above)].tolist()
        return tokens


def _initial_state(size: int, vocab_size: int, *, start: int, lag: int) -> kernel.PrefixBeamState:
    nodes, candidates = tree_capacity(size), 4 * size + vocab_size
    return kernel.PrefixBeamState(
        counters=np.array([1, 1, 0, 0, 0]),
        live=kernel.LivePrefixes(
            node=np.zeros(size, np.int32),
            blank=np.zeros(size),
            token=np.full(size, -math.inf),
            total=np.zeros(size),
        ),
        tree=kernel.TokenTree(
            parents=np.full(nodes, -1, np.int32),
            tokens=np.full(nodes, -1, np.int32),
            slots=np.zeros(nodes, np.int32),
            lm_states=np.full(nodes, start, np.int32),
            lm_log_probs=np.zeros(nodes),
            lm_scores=np.zeros(nodes),
            child_table=np.full(2 * nodes, -1, np.int32),
        ),
        candidates=kernel.Candidates(scores=np.empty(candidates), origins=np.empty((candidates, 3), np.int32)),
        work=kernel.PrefixWorkspace(
            log_probs=np.empty(vocab_size),
            order=np.empty(vocab_size, np.int32),
            child_alive=np.full((size, vocab_size), -1),
            lm_log_probs=np.zeros((size, vocab_size)),
            staying=np.empty((3, size)),
            selected=np.empty((3, size)),
            selected_node=np.empty(size, np.int32),
        ),
        backpointers=kernel.Backpointers(
            staying=np.zeros(size, np.int32), ring=np.zeros((max(lag, 1), size), np.int32)
        ),
    )
