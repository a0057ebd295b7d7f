"""What a search for words of a lexicon is between two frames, in arrays; and what it decides on, to drop all else."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seqloom.kernels.compiled import compiled, inlined
from seqloom.kernels.pruning import comes_from, decided, hashed

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]

ALIVE, HISTORIES, FRAME, DECIDED = 0, 1, 2, 3  # places in ``counts``, as in ``prefix_beam``
SYMBOL, CHILDREN, WORDS, PARENT = 0, 1, 2, 3  # places in ``links``
NOTHING = -1  # instead of a word
WITHIN, BEHIND = 1, 2  # what lives that comes from a hypothesis: within its word, behind it


class Tree(NamedTuple):
    """The lexicon's tree; see ``decoding.lexicon.Lexicon``. What is read of a node stands together in memory."""

    links: Integers  # (N + 1, 4) symbol, first child, first word, parent of each node
    words_at: Integers
    ahead: Floats  # (N,) the most that a word below each node can be worth
    fan: int  # the most candidates that one hypothesis can make in a frame
    homographs: int  # the most words of one node
    varied: npt.NDArray[np.bool_]  # (W,) words with several spellings
    various: bool  # whether there are such


class Words(NamedTuple):
    """All that a search is between two frames, and room to work in."""

    counts: npt.NDArray[np.int64]  # (5,)
    history: Integers  # (K,) of each live hypothesis
    node: Integers  # (K,) of the lexicon
    last: Integers  # (K,) its last symbol, -1 before the first
    ends: Floats  # (3, K) log p of its paths that end in a blank, in its last symbol, in either
    parents: Integers  # (N,) of histories; those before their children
    words: Integers  # (N,) the last one of each history; -1: the root
    states: Integers  # (N,) of the language model
    language: Floats  # (N,) log p by the language model
    gains: Floats  # (N,) what it adds to the score, with all bonuses
    begun: npt.NDArray[np.int64]  # (N,) the last frame in which a first symbol behind it was alive
    ended: npt.NDArray[np.int64]  # (N,) the last frame in which a whole word behind it was alive
    table: Integers  # (2^n,) histories by parent and word, -1: empty
    keys: npt.NDArray[np.int64]  # (2^m,) of live hypotheses, -1: empty
    places: Integers  # (2^m,) of those keys in the beam
    fed: Integers  # (K,) whether live hypotheses come from each
    tried: Floats  # (V,) the frame
    values: Floats  # (C,) of candidates
    origins: Integers  # (4, C) their place in the beam, node, word, and state of the language model
    groups: npt.NDArray[np.int64]  # (2^m,) keys of candidates that no future can tell apart, -1: empty
    leaders: Integers  # (2^m,) the best of each group
    held: Floats  # (3, K) as ends, of those that stay
    fresh: Floats  # (3, K) as ends, of those that are chosen
    chosen: Integers  # (3, K) their history, node, last symbol
    joined: Integers  # (C,) the word, or NOTHING, of candidates that are sums over several spellings
    sums: Floats  # (C,) log p of their paths
    came: Integers  # (K,) where those that stay come from, as in ``back``
    back: Integers  # (L, K) of the last frames, see ``pruning.decided``


@compiled
def seek(keys: npt.NDArray[np.int64], key: int) -> int:
    """The place of a key in the table, or where it can be written."""
    mask = len(keys) - 1
    at = hashed(key, mask)
    while keys[at] >= 0 and keys[at] != key:
        at = (at + 1) & mask
    return int(at)


@compiled
def living(keys: npt.NDArray[np.int64], places: Integers, asked: int, key: int) -> int:
    """The place of a live hypothesis in the beam; -1 if it is not alive, or nobody asked."""
    if not asked:
        return -1
    at = seek(keys, key)
    return int(places[at]) if keys[at] >= 0 else -1


@compiled
def index(beam: Words, tree: Tree) -> None:
    """Make the keys of all live hypotheses anew."""
    width = len(tree.links) + len(beam.tried) + 1
    for at in range(len(beam.keys)):
        beam.keys[at] = -1
    for place in range(beam.counts[ALIVE]):
        key = beam.history[place] * width + (beam.node[place] or len(tree.links) + beam.last[place] + 1)
        at = seek(beam.keys, key)
        beam.keys[at], beam.places[at] = key, place


@inlined
def decide(beam: Words, tree: Tree) -> None:
    """What the best hypothesis had said before the last frames is decided: drop those that do not begin with it."""
    histories, nodes, lasts, ends, parents = beam.history, beam.node, beam.last, beam.ends, beam.parents
    alive, frame = beam.counts[ALIVE], beam.counts[FRAME]
    for place in range(alive):
        beam.values[place] = ends[2, place] + beam.gains[histories[place]] + tree.ahead[nodes[place]]
    history = decided(parents, histories, beam.values, alive, beam.back, frame)
    if history > beam.counts[DECIDED]:  # else it is an ancestor of what was decided before
        beam.counts[DECIDED] = history
        count, back = 0, beam.back[frame % len(beam.back)]
        for place in range(alive):
            if comes_from(parents, histories[place], history):
                histories[count], nodes[count], lasts[count] = histories[place], nodes[place], lasts[place]
                back[count] = back[place]
                for part in range(3):
                    ends[part, count] = ends[part, place]
                count += 1
        beam.counts[ALIVE] = count
        index(beam, tree)
