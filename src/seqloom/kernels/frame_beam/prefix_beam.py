"""CTC prefix beam search over the frames of one recording (Hannun et al. 2014). See ``naive.prefix_beam``.

Prefixes are nodes of a tree in arrays. In each frame a hypothesis stays at its node (a blank, or its last token once
more) or moves to a child (a new token). Where the child is in the beam too, both ways to reach it are summed; the
child finds its parent by the parent's slot in the beam, so only nodes that are new in a frame need hashing.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seqloom.kernels.frame_beam.ngram_scorer import NONE, Scorer, score
from seqloom.kernels.frame_beam.primitives import (
    descends_from,
    find_child,
    keep_best,
    load_frame,
    maximum,
    merge,
    minimum,
    node_before_lag,
    sort_descending,
)
from seqloom.kernels.runtime.numba_jit import borrow, jit, jit_inline

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]

LIVE, NODES, FRAME, LAG_NODE, COMMITTED = 0, 1, 2, 3, 4
"""Fields of ``counters``: live hypotheses; nodes of the tree; frames processed; node that the lag has fixed for all
hypotheses; node up to which the caller has reported the transcript."""

STAY = -1  # in place of a token


class LivePrefixes(NamedTuple):
    """The hypotheses in the beam; K is the beam size."""

    node: Integers  # (K,) in the prefix tree
    blank: Floats  # (K,) log p of the paths that end in a blank
    token: Floats  # (K,) log p of the paths that end in the last token
    total: Floats  # (K,) log p of both


class TokenTree(NamedTuple):
    """Every prefix that was ever in the beam and may still be needed."""

    parents: Integers  # (N,)
    tokens: Integers  # (N,) last token, -1 for the root
    slots: Integers  # (N,) in the beam, -1: not alive
    lm_states: Integers  # (N,) state of the language model
    lm_log_probs: Floats  # (N,) log p of the prefix by the language model
    lm_scores: Floats  # (N,) its contribution to the score: weighted log p and all bonuses
    child_table: Integers  # (2^n,) hash table of nodes by parent and token, -1: empty


class Candidates(NamedTuple):
    """Hypotheses that compete for the next beam."""

    scores: Floats  # (C,)
    origins: Integers  # (C, 3) beam slot they come from; token or STAY; next state of the language model


class PrefixWorkspace(NamedTuple):
    """Scratch memory of one frame."""

    log_probs: Floats  # (V,) the frame
    order: Integers  # (V,) its tokens, most probable first
    child_alive: npt.NDArray[np.int64]  # (K, V) the last frame in which this child was in the beam
    lm_log_probs: Floats  # (K, V) log p of an extension by the language model
    staying: Floats  # (3, K) blank, token, total of hypotheses that stay
    selected: Floats  # (3, K) blank, token, total of the next beam
    selected_node: Integers  # (K,)


class Backpointers(NamedTuple):
    """The most probable path to each hypothesis, see ``primitives.node_before_lag``."""

    staying: Integers  # (K,) backpointers of hypotheses that stay in this frame
    ring: Integers  # (L, K) backpointers of the last L frames, a ring buffer


class PrefixBeamState(NamedTuple):
    """Everything a search keeps between two frames, and its scratch memory."""

    counters: npt.NDArray[np.int64]  # (5,)
    live: LivePrefixes
    tree: TokenTree
    candidates: Candidates
    work: PrefixWorkspace
    backpointers: Backpointers


class Limits(NamedTuple):
    """The options of a search."""

    size: int  # hypotheses in the beam
    per_node: int  # extensions of one hypothesis, 0: no limit
    floor: float  # log-probability below which a token is not tried in a frame
    threshold: float  # how far below the best score a hypothesis may be
    blank: int
    lag: int  # frames after which a token is final, 0: never
    viterbi: bool  # paths of a hypothesis are merged by their maximum instead of their sum
    histories: int  # hypotheses at one node of the lexicon, 0: no limit


@jit_inline
def score_staying(state: PrefixBeamState, limits: Limits) -> float:
    """Make a candidate of each hypothesis that stays, with paths that arrive from its parent; the best old score."""
    # Arrays are taken out of their tuples once: inside loops, numba would count references at each access.
    nodes, blank_log_probs, token_log_probs, totals = state.live
    parents, tokens, slots, _, _, lm_scores, _ = state.tree
    scores, origins = state.candidates
    log_probs, child_alive, staying = state.work.log_probs, state.work.child_alive, state.work.staying
    frame, top, backpointers = state.counters[FRAME], -math.inf, state.backpointers.staying
    blank, viterbi = limits.blank, limits.viterbi
    for slot in range(state.counters[LIVE]):
        backpointers[slot] = 2 * slot
        node, total = nodes[slot], totals[slot]
        token, lm_score = tokens[node], lm_scores[node]
        top = max(top, total + lm_score)
        ends_blank, ends_token = total + log_probs[blank], -math.inf
        if token >= 0 and log_probs[token] > -math.inf:
            ends_token = token_log_probs[slot] + log_probs[token]
            parent_slot = slots[parents[node]]
            if parent_slot >= 0:
                child_alive[parent_slot, token] = frame
                repeated = tokens[parents[node]] == token  # needs a blank in between
                source = blank_log_probs[parent_slot] if repeated else totals[parent_slot]
                if source + log_probs[token] > max(ends_blank, ends_token):
                    backpointers[slot] = 2 * parent_slot + 1
                ends_token = merge(ends_token, source + log_probs[token], viterbi)
        both = merge(ends_blank, ends_token, viterbi)
        staying[0, slot], staying[1, slot], staying[2, slot] = ends_blank, ends_token, both
        scores[slot] = both + lm_score
        origins[slot, 0], origins[slot, 1] = slot, STAY
    return top


@jit_inline
def sort_tokens(log_probs: Floats, order: Integers, blank: int, lowest: float) -> int:
    """Sort the tokens whose log-probability is at least ``lowest``; their number."""
    count = 0
    for token in range(len(log_probs)):
        value = log_probs[token]
        if value > -math.inf and value >= lowest and token != blank:
            order[count] = token
            count += 1
    sort_descending(log_probs, order, count)
    return count


@jit_inline
def extend(state: PrefixBeamState, scorer: Scorer, limits: Limits, bound: float, token_count: int) -> int:
    """Add extensions by one token that score above the bound to the candidates; the number of candidates."""
    nodes, blank_log_probs, _, totals = state.live
    tokens, lm_states, lm_scores = state.tree.tokens, state.tree.lm_states, state.tree.lm_scores
    log_probs, order, child_alive, lm_log_probs = (
        state.work.log_probs,
        state.work.order,
        state.work.child_alive,
        state.work.lm_log_probs,
    )
    scores, origins = state.candidates
    bonuses, vocabulary_ids, weight, max_bonus = scorer.bonuses, scorer.vocabulary_ids, scorer.weight, scorer.max_bonus
    kind, ngram_words, first_children = scorer.kind, scorer.ngram_words, scorer.first_children
    backoff_states, ngram_log_probs, log_backoffs = scorer.backoff_states, scorer.log_probs, scorer.log_backoffs
    lm_table = scorer.table
    frame, count = state.counters[FRAME], state.counters[LIVE]
    for slot in range(state.counters[LIVE]):
        if count + token_count > len(scores):  # not enough space for all: drop the worst
            keep_best(scores, origins, count, limits.size)
            count = limits.size
            bound = max(bound, minimum(scores, count))
        first, node = count, nodes[slot]
        base = totals[slot] + lm_scores[node]
        for rank in range(token_count):
            token = order[rank]
            value = base + log_probs[token]
            if value + max_bonus <= bound:
                break
            if child_alive[slot, token] == frame:  # summed by score_staying
                continue
            if token == tokens[node]:  # needs a blank in between
                value += blank_log_probs[slot] - totals[slot]
            next_lm_state = 0
            if kind != NONE:
                lm_log_prob, next_lm_state = score(
                    kind,
                    ngram_words,
                    first_children,
                    backoff_states,
                    ngram_log_probs,
                    log_backoffs,
                    lm_table,
                    lm_states[node],
                    vocabulary_ids[token],
                )
                if lm_log_prob == -math.inf:
                    continue
                lm_log_probs[slot, token] = lm_log_prob
                value += weight * lm_log_prob
            value += bonuses[token]
            if value > bound:
                scores[count] = value
                origins[count, 0], origins[count, 1], origins[count, 2] = slot, token, next_lm_state
                count += 1
        if limits.per_node and count - first > limits.per_node:
            keep_best(scores[first:], origins[first:], count - first, limits.per_node)
            count = first + limits.per_node
    return int(count)


@jit_inline
def select_beam(state: PrefixBeamState, scorer: Scorer, candidates: int, bound: float) -> None:
    """Make the first candidates the new beam, except those below the bound; new prefixes get a node."""
    nodes, blank_log_probs, token_log_probs, totals = state.live
    parents, tokens, slots, lm_states, lm_log_probs, lm_scores, child_table = state.tree
    scores, origins = state.candidates
    log_probs, _, _, extension_log_probs, staying, selected, selected_nodes = state.work
    staying_backpointers = state.backpointers.staying
    backpointers = state.backpointers.ring[state.counters[FRAME] % len(state.backpointers.ring)]
    for slot in range(state.counters[LIVE]):
        slots[nodes[slot]] = -1
    count, size = 0, state.counters[NODES]
    for candidate in range(candidates):
        if not scores[candidate] >= bound or scores[candidate] == -math.inf:
            continue
        slot, token = origins[candidate, 0], origins[candidate, 1]
        node = nodes[slot]
        if token == STAY:
            backpointers[count] = staying_backpointers[slot]
            for part in range(3):
                selected[part, count] = staying[part, slot]
        else:
            backpointers[count] = 2 * slot + 1
            source = blank_log_probs[slot] if tokens[node] == token else totals[slot]
            selected[0, count], selected[1, count] = -math.inf, source + log_probs[token]
            selected[2, count] = selected[1, count]
            at = find_child(child_table, parents, tokens, node, token)
            if child_table[at] < 0:
                lm_log_prob = extension_log_probs[slot, token] if scorer.kind != NONE else 0.0
                parents[size], tokens[size], child_table[at] = node, token, size
                lm_log_probs[size] = lm_log_probs[node] + lm_log_prob
                lm_scores[size] = lm_scores[node] + scorer.weight * lm_log_prob + scorer.bonuses[token]
                size += 1
            node = child_table[at]
            lm_states[node] = origins[candidate, 2]  # of a known node, too: rows of a table move
        selected_nodes[count] = node
        count += 1
    for slot in range(count):
        node = selected_nodes[slot]
        nodes[slot], slots[node] = node, slot
        blank_log_probs[slot], token_log_probs[slot] = selected[0, slot], selected[1, slot]
        totals[slot] = selected[2, slot]
    state.counters[LIVE], state.counters[NODES] = count, size


@jit_inline
def enforce_lag(state: PrefixBeamState) -> None:
    """Drop hypotheses that disagree with what the best one had recognised before the last ``lag`` frames."""
    nodes, blank_log_probs, token_log_probs, totals = state.live
    parents, slots, lm_scores = state.tree.parents, state.tree.slots, state.tree.lm_scores
    scores, ring = state.candidates.scores, state.backpointers.ring
    alive, frame = state.counters[LIVE], state.counters[FRAME]
    for slot in range(alive):
        scores[slot] = totals[slot] + lm_scores[nodes[slot]]
    node = node_before_lag(parents, nodes, scores, alive, ring, frame)
    if node > state.counters[LAG_NODE]:  # otherwise it is an ancestor of the node that is fixed already
        state.counters[LAG_NODE] = node
        count, backpointers = 0, ring[frame % len(ring)]
        for slot in range(alive):
            if not descends_from(parents, nodes[slot], node):
                slots[nodes[slot]] = -1
                continue
            nodes[count], backpointers[count], slots[nodes[slot]] = nodes[slot], backpointers[slot], count
            blank_log_probs[count], token_log_probs[count] = blank_log_probs[slot], token_log_probs[slot]
            totals[count] = totals[slot]
            count += 1
        state.counters[LIVE] = count


@jit
def advance(state: PrefixBeamState, scorer: Scorer, limits: Limits, frames: Floats) -> int:
    """Process frames (T, V) until the tree is full; the number of frames processed."""
    state, scorer, frames = borrow(state), borrow(scorer), borrow(frames)
    log_probs, scores, origins = state.work.log_probs, state.candidates.scores, state.candidates.origins
    for frame in range(len(frames)):
        if state.counters[NODES] + limits.size > len(state.tree.parents):
            return frame
        load_frame(frames[frame], log_probs, limits.blank, limits.floor)
        top = score_staying(state, limits)
        live = state.counters[LIVE]
        bound = maximum(scores, live) - limits.threshold
        if live == limits.size:
            bound = max(bound, minimum(scores, live))
        lowest = bound - top - scorer.max_bonus
        tokens = sort_tokens(log_probs, state.work.order, limits.blank, lowest)
        count = extend(state, scorer, limits, bound, tokens)
        if count > limits.size:
            keep_best(scores, origins, count, limits.size)
            count = limits.size
        select_beam(state, scorer, count, maximum(scores, count) - limits.threshold)
        if limits.lag and state.counters[FRAME] + 1 > limits.lag and state.counters[LIVE]:
            enforce_lag(state)
        state.counters[FRAME] += 1
    return len(frames)


@jit
def end_log_probs(state: PrefixBeamState, scorer: Scorer) -> Floats:  # (K,)
    """log p of the end of the sentence after each live prefix, by the language model."""
    kind, ngram_words, first_children = scorer.kind, scorer.ngram_words, scorer.first_children
    backoff_states, ngram_log_probs, log_backoffs = scorer.backoff_states, scorer.log_probs, scorer.log_backoffs
    lm_table = scorer.table
    result = np.zeros(state.counters[LIVE], np.float64)
    if scorer.end >= 0:
        for slot in range(len(result)):
            lm_state = state.tree.lm_states[state.live.node[slot]]
            result[slot] = score(
                kind,
                ngram_words,
                first_children,
                backoff_states,
                ngram_log_probs,
                log_backoffs,
                lm_table,
                lm_state,
                scorer.end,
            )[0]
    return result
