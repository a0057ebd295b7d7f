"""The state of a lexicon beam search between two frames, in arrays. docs/lexicon_search.md draws it."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seqloom.kernels.frame_beam.prefix_beam import Backpointers
from seqloom.kernels.frame_beam.primitives import descends_from, find_key, node_before_lag
from seqloom.kernels.runtime.numba_jit import jit, jit_inline

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]
Keys = npt.NDArray[np.int64]

LIVE, HISTORIES, FRAME, LAG_NODE = 0, 1, 2, 3  # fields of ``counters``, as in ``prefix_beam``
TOKEN, CHILDREN, WORDS, PARENT = 0, 1, 2, 3  # columns of ``LexiconTree.links``
CHILD_BITS, ANY_CHILD = 64, -1
ROOT = 0
NO_WORD = -1
BLANK_END, TOKEN_END, TOTAL = 0, 1, 2  # rows of ``log_probs``
WITHIN_WORD, NEXT_WORD = 1, 2  # bits of ``SearchWorkspace.successors``


class LexiconTree(NamedTuple):
    """The prefix tree of a lexicon (see ``decoding.frames.lexicon``) with the look-ahead of a language model."""

    links: Integers  # (N + 1, 4) token, first child, first word and parent of each node; interleaved for cache locality
    words_at: Integers  # words that end at the nodes, node by node
    lookahead: Floats  # (N,) the highest unigram score of a word below each node
    max_fanout: int  # candidates that one hypothesis can make in a frame
    max_homographs: int  # words that end at one node
    has_variants: npt.NDArray[np.bool_]  # (W,) whether a word has several spellings
    any_variants: bool


class LiveHypotheses(NamedTuple):
    """The hypotheses in the beam; K is the beam size."""

    history: Integers  # (K,) complete words so far: a node of the history tree
    node: Integers  # (K,) the word that has begun: a node of the lexicon, ROOT between words
    last: Integers  # (K,) last token, -1 before the first
    log_probs: Floats  # (3, K) log p of the paths that end in a blank, in the last token, in either


class HistoryTree(NamedTuple):
    """The word sequences of live hypotheses, as a tree; an edge is a word."""

    parents: Integers  # (N,)
    words: Integers  # (N,) last word, -1 for the root
    lm_states: Integers  # (N,) state of the language model
    lm_log_probs: Floats  # (N,) log p of the words by the language model
    lm_scores: Floats  # (N,) their contribution to the score: weighted log p and all bonuses
    first_token_frame: Keys  # (N,) the last frame in which a hypothesis was at the first token after this history
    next_word_frame: Keys  # (N,) the last frame in which a hypothesis had exactly one more word
    child_table: Integers  # (2^n,) hash table of histories by parent and word, -1: empty


class LiveIndex(NamedTuple):
    """Hash table that finds a live hypothesis; see ``hypothesis_key``."""

    keys: Keys  # (2^m,) -1: empty
    slots: Integers  # (2^m,) in the beam


class LexiconCandidates(NamedTuple):
    """Hypotheses that compete for the next beam, and a hash table to merge equal ones."""

    scores: Floats  # (C,)
    origins: Integers  # (C, 4) beam slot they come from; node of the lexicon; word; next state of the language model
    group_keys: Keys  # (2^m,) keys of groups of candidates, -1: empty
    group_leaders: Integers  # (2^m,) the representative of each group
    merged_words: Integers  # (C,) word, or NO_WORD, of candidates that are sums over spellings
    merged_log_probs: Floats  # (C,) log p of their paths


class SearchWorkspace(NamedTuple):
    """Scratch memory of one frame."""

    log_probs: Floats  # (V,) the frame
    successors: (
        Integers  # (K,) bits: which live hypotheses, to be searched for, can be reached from this one by a token
    )
    children: Keys  # (K,) bits of live hypotheses at children of the same node, see ``child_bit``
    staying: Floats  # (3, K) ``log_probs`` of hypotheses that stay
    selected: Floats  # (3, K) ``log_probs`` of the next beam
    selected_keys: Integers  # (3, K) history, node, last token of the next beam


class LexiconBeamState(NamedTuple):
    """Everything a search keeps between two frames, and its scratch memory."""

    counters: Keys  # (5,)
    live: LiveHypotheses
    histories: HistoryTree
    live_index: LiveIndex
    candidates: LexiconCandidates
    work: SearchWorkspace
    backpointers: Backpointers


@jit_inline
def hypothesis_key(nodes: int, tokens: int, history: int, node: int, last: int) -> int:
    """A number for (history, node); at the root also for the last token, which cannot be repeated without a blank."""
    return history * (nodes + tokens + 1) + (node or nodes + last + 1)


@jit_inline
def child_bit(links: Integers, node: int, child: int) -> int:
    """A bit for a child of a node: of its own, unless there are more than ``CHILD_BITS``."""
    bit: int = np.int64(1) << ((child - links[node, CHILDREN]) & (CHILD_BITS - 1))
    return bit


@jit_inline
def find_live(keys: Keys, slots: Integers, needed: int, key: int) -> int:
    """The beam slot of a live hypothesis; -1 if there is none, or if it is not ``needed``."""
    if not needed:
        return -1
    at = find_key(keys, key)
    return int(slots[at]) if keys[at] >= 0 else -1


@jit_inline
def find_live_child(keys: Keys, slots: Integers, bits: int, key: int, links: Integers, node: int, child: int) -> int:
    """The beam slot of a live hypothesis at a child; -1 if there is none. Within a word, any slot if there is one."""
    if not bits & child_bit(links, node, child):
        return -1
    if node != ROOT and links[node + 1, CHILDREN] - links[node, CHILDREN] <= CHILD_BITS:
        return 0
    return int(find_live(keys, slots, 1, key))


@jit
def rebuild_index(state: LexiconBeamState, tree: LexiconTree) -> None:
    """Enter all live hypotheses into an empty index."""
    live, index, nodes, tokens = state.live, state.live_index, len(tree.links), len(state.work.log_probs)
    for at in range(len(index.keys)):
        index.keys[at] = -1
    for slot in range(state.counters[LIVE]):
        key = hypothesis_key(nodes, tokens, live.history[slot], live.node[slot], live.last[slot])
        at = find_key(index.keys, key)
        index.keys[at], index.slots[at] = key, slot


@jit_inline
def enforce_lag(state: LexiconBeamState, tree: LexiconTree) -> None:
    """Drop hypotheses that disagree with the words that the best one had before the last ``lag`` frames."""
    histories, nodes, lasts, log_probs = state.live
    parents, lm_scores, scores = state.histories.parents, state.histories.lm_scores, state.candidates.scores
    alive, frame, ring, lookahead = state.counters[LIVE], state.counters[FRAME], state.backpointers.ring, tree.lookahead
    for slot in range(alive):
        scores[slot] = log_probs[TOTAL, slot] + lm_scores[histories[slot]] + lookahead[nodes[slot]]
    history = node_before_lag(parents, histories, scores, alive, ring, frame)
    if history > state.counters[LAG_NODE]:  # otherwise it is an ancestor of the node that is fixed already
        state.counters[LAG_NODE] = history
        count, backpointers = 0, ring[frame % len(ring)]
        for slot in range(alive):
            if descends_from(parents, histories[slot], history):
                histories[count], nodes[count], lasts[count] = histories[slot], nodes[slot], lasts[slot]
                backpointers[count] = backpointers[slot]
                for part in range(3):
                    log_probs[part, count] = log_probs[part, slot]
                count += 1
        state.counters[LIVE] = count
        rebuild_index(state, tree)
