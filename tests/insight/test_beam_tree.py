"""A beam search as a tree: every branch occurs once, with its outcome."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.data.text.vocabulary import END
from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.search_record import NodeStatus, SearchRecord
from seqloom.insight.beam_tree import (
    ENDED,
    PRUNED,
    BeamNode,
    Branch,
    are_joined,
    beam_lines,
    build_tree,
    draw_beam,
    join_tokens,
)

#          root
#        a       b†      (c is pruned)
#     aa  ab†
#   aa$  aab†(cannot win)
TREE = [
    BeamNode(0, -1, "", 0, 0.0, 0.0, "extended"),
    BeamNode(1, 0, "a", 1, -0.1, -0.1, "extended"),
    BeamNode(2, 0, "b", 1, -2.0, -2.0, "extended"),
    BeamNode(3, 0, "c", 1, -3.0, -3.0, "outside_beam"),
    BeamNode(4, 1, "a", 2, -0.2, -0.3, "extended"),
    BeamNode(5, 1, "b", 2, -1.0, -1.1, "not_in_nbest"),
    BeamNode(6, 2, "a", 2, -9.0, -11.0, "outside_beam"),
    BeamNode(7, 2, "b", 2, -8.0, -10.0, "below_threshold"),
    BeamNode(8, 4, "</s>", 3, -0.1, -0.4, "in_nbest"),
    BeamNode(9, 4, "b", 3, -1.0, -1.3, "cannot_win"),
]


def test_text() -> None:
    assert beam_lines(TREE) == [
        "├─ b    -2.000  pruned: below the score threshold",  # the reason is that of the best pruned child
        "a",
        "├─ b    -1.100  finished, not in the n-best",
        "a",
        "├─ b    -1.300  stopped: cannot reach the n-best",
        "</s>    -0.400  n-best #1",
    ]


def test_forks_inside_branches() -> None:
    branches = [
        BeamNode(0, -1, "", 0, 0.0, 0.0, "extended"),
        BeamNode(1, 0, "x", 1, -0.1, -0.1, "in_nbest"),
        BeamNode(2, 0, "y", 1, -2.0, -2.0, "extended"),
        BeamNode(3, 2, "z", 2, -3.0, -3.0, "cannot_win"),
        BeamNode(4, 2, "w", 2, -4.0, -4.0, "cannot_win"),
    ]
    assert beam_lines(branches) == [
        "├─ y",
        "│  ├─ w    -4.000  stopped: cannot reach the n-best",
        "│  z       -3.000  stopped: cannot reach the n-best",
        "x          -0.100  n-best #1, maximum length reached",
    ]


def test_the_worst_branches_are_removed() -> None:
    root, removed = build_tree(TREE, max_branches=2)
    assert removed == 2
    assert root.leaves == 2
    assert beam_lines(TREE, max_branches=2)[-1] == "(2 more branches)"


def joined_text(tokens: list[str]) -> str:
    return join_tokens(tokens, joined=are_joined(tokens))


def test_one_letter_words_are_separated_in_a_tree_of_words() -> None:
    nodes = [
        BeamNode(0, -1, "", 0, 0.0, 0.0, "extended"),
        BeamNode(1, 0, "I", 1, -0.1, -0.1, "extended"),
        BeamNode(2, 1, "a", 2, -0.1, -0.2, "extended"),
        BeamNode(3, 2, "dog", 3, -0.1, -0.3, "in_nbest"),
        BeamNode(4, 2, "b", 3, -1.0, -1.2, "cannot_win"),
    ]
    assert beam_lines(nodes)[0] == "I a"


def test_words_are_separated_by_spaces() -> None:
    assert joined_text(["the", "sky", "</s>"]) == "the sky </s>"
    assert joined_text(["1", "7", "</s>"]) == "17</s>"
    assert joined_text(["the", " sky", "s"]) == "the␣skys"


def test_every_status_has_a_text() -> None:
    assert {status.name.lower() for status in NodeStatus} - {"impossible"} == PRUNED.keys() | ENDED.keys()
    assert not PRUNED.keys() & ENDED.keys()
    assert set(ENDED) == {status.name.lower() for status in NodeStatus if status >= NodeStatus.EXTENDED}


@pytest.mark.parametrize(
    ("length", "options"),
    [
        (7, {"size": 4, "nbest": 2}),
        (7, {"size": 4, "nbest": 2, "threshold": 1.0, "per_node": 2}),
        (7, {"size": 1}),
        (1, {"size": 6, "nbest": 6}),  # only one ends, which is not the most probable
    ],
)
def test_the_tree_holds_every_kept_hypothesis_in_the_order_of_the_search(length: int, options: dict[str, Any]) -> None:
    search = Beam(length_penalty="none", **options)
    table = torch.from_numpy(np.random.default_rng(5).normal(size=(6, 6))).log_softmax(dim=1)
    record = SearchRecord()
    (result,) = search(
        lambda last, state: (table[last], state), torch.zeros(1, 1), torch.tensor([0]), 0, lengths=length, record=record
    )
    nodes = record.nodes(0)
    tree_nodes = [BeamNode(n.id, n.parent, str(n.token or END), *n[4:7], n.status.name.lower()) for n in nodes]
    root, removed = build_tree(tree_nodes, max_branches=10**6)
    assert removed == 0
    seen: list[Branch] = []
    waiting = [root]
    while waiting:
        branch = waiting.pop()
        seen.append(branch)
        waiting += branch.children
        assert bool(branch.outcome) is not bool(branch.children)
        assert all(child.node.parent == branch.node.number for child in branch.children)
    assert sorted(branch.node.number for branch in seen) == [n.id for n in nodes if n.status >= NodeStatus.EXTENDED]
    ranked = sorted((branch for branch in seen if branch.rank), key=lambda branch: branch.rank)
    assert [branch.node.score for branch in ranked] == [hypothesis.score for hypothesis in result]


def test_plot(tmp_path: Path) -> None:
    draw_beam(TREE, tmp_path / "new" / "beam.png", title="$ → $", max_branches=2)
    assert (tmp_path / "new" / "beam.png").read_bytes().startswith(b"\x89PNG")
