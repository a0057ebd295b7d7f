"""The children of every node against the sequences themselves."""

import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.decoding.tokens.prefix_tree import PrefixTree


def walk(tree: PrefixTree) -> set[tuple[int, ...]]:
    """All sequences of a tree, each with its end token, by following the children level by level."""
    sequences: set[tuple[int, ...]] = set()
    prefixes: list[tuple[int, ...]] = [()]
    nodes = np.zeros(1, np.int64)
    while len(nodes):
        tokens, mask = tree.children(nodes)
        assert all(np.all(np.diff(row[real]) > 0) for row, real in zip(tokens, mask, strict=True))
        rows, columns = np.nonzero(mask)
        longer = [(*prefixes[row], int(tokens[row, column])) for row, column in zip(rows, columns, strict=True)]
        following = tree.child(nodes[rows], columns)
        sequences |= {prefix for prefix in longer if prefix[-1] == tree.end}
        inner = [index for index, prefix in enumerate(longer) if prefix[-1] != tree.end]
        nodes, prefixes = following[inner], [longer[index] for index in inner]
    return sequences


@given(sequences=st.lists(st.lists(st.integers(0, 4).filter(lambda token: token != 2), max_size=5), min_size=1))
def test_a_tree_holds_its_sequences_and_no_others(sequences: list[list[int]]) -> None:
    tree = PrefixTree(sequences, end=2)
    assert walk(tree) == {(*sequence, 2) for sequence in sequences}
    whole = [(*sequence, 2) for sequence in sequences]
    assert len(tree) == len({sequence[:length] for sequence in whole for length in range(len(sequence) + 1)})


def test_a_node_without_children() -> None:
    tree = PrefixTree([[]], end=0)
    tokens, mask = tree.children(np.array([1, 0]))
    assert mask.tolist() == [[False], [True]]
    assert tokens[1].tolist() == [0]


def test_many_sequences() -> None:
    random = np.random.default_rng(1)
    sequences = [row[:length].tolist() for row, length in zip(*draw(random, 20_000), strict=True)]
    tree = PrefixTree(iter(sequences), end=0)
    assert walk(tree) == {(*sequence, 0) for sequence in sequences}


def draw(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    return random.integers(1, 500, (count, 8)), random.integers(0, 9, count)


def test_one_long_sequence_among_short_ones() -> None:
    tree = PrefixTree([[1] * 20_000, *[[token] for token in range(1, 1000)]], end=0)
    assert len(tree) == 1 + 20_000 + 998 + 1000  # the root, the tokens, the ends


@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        ([], "a prefix tree needs at least one sequence"),
        ([[1, 2], [], [3, 0]], "sequence 2 contains 0, expected token ids of at least 0 without the end token 0"),
        ([[], [], [-1]], "sequence 2 contains -1, expected"),
    ],
)
def test_invalid_sequences_are_rejected(sequences: Sequence[Sequence[int]], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        PrefixTree(sequences, end=0)
