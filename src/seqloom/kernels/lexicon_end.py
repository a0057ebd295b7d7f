"""How a search for words can end: which words are complete, and what a language model says of them."""

import numpy as np
import numpy.typing as npt

from seqloom.kernels.compiled import compiled
from seqloom.kernels.language import Scorer, score
from seqloom.kernels.lexicon_state import ALIVE, CHILDREN, NOTHING, SYMBOL, WORDS, Tree, Words

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]


@compiled
def complete(beam: Words, tree: Tree, separator: int, ways: Integers) -> int:
    """All ways in which live hypotheses can end here: their place, and the word that ends; how many they are."""
    found = 0
    for place in range(beam.counts[ALIVE]):
        node = beam.node[place]
        if node == 0:
            ways[0, found], ways[1, found] = place, NOTHING
            found += 1
            continue
        for child in range(tree.links[node, CHILDREN], tree.links[node + 1, CHILDREN]):
            if tree.links[child, SYMBOL] == separator:
                for which in range(tree.links[child, WORDS], tree.links[child + 1, WORDS]):
                    ways[0, found], ways[1, found] = place, tree.words_at[which]
                    found += 1
    return found


@compiled
def rate(beam: Words, scorer: Scorer, ways: Integers, found: int) -> Floats:  # (2, W)
    """log p of the word that ends and of the end, for each way; 0 for an end that a table does not know yet."""
    kind, entries, longer, suffixes = scorer.kind, scorer.words, scorer.first, scorer.suffixes
    chances, backoffs, rows = scorer.log_probabilities, scorer.log_backoffs, scorer.table
    rewards = np.zeros((2, found), np.float64)
    for way in range(found):
        state, word = beam.states[beam.history[ways[0, way]]], ways[1, way]
        if word >= 0:
            number = scorer.numbers[word]
            rewards[0, way], state = score(kind, entries, longer, suffixes, chances, backoffs, rows, state, number)
        if scorer.end >= 0 and state >= 0:
            rewards[1, way] = score(kind, entries, longer, suffixes, chances, backoffs, rows, state, scorer.end)[0]
    return rewards


@compiled
def lift(values: Floats, parents: Integers) -> None:
    """Give each node the greatest value of all below it."""
    for node in range(len(values) - 1, 0, -1):
        values[parents[node]] = max(values[parents[node]], values[node])
