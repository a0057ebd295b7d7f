"""A search as a tree: every branch is there once, with the reason why it ended."""

from pathlib import Path

import numpy as np
import pytest
import torch

from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.search_record import Fate, SearchRecord
from seqloom.insight.beam import ENDS, WHY, Branch, Twig, beam_lines, draw_beam, grow, spell

#          root
#        a       b†      (c was never followed)
#     aa  ab†
#   aa$  aab†(hopeless)
TREE = [
    Branch(0, -1, "", 0, 0.0, 0.0, "extended"),
    Branch(1, 0, "a", 1, -0.1, -0.1, "extended"),
    Branch(2, 0, "b", 1, -2.0, -2.0, "extended"),
    Branch(3, 0, "c", 1, -3.0, -3.0, "beam"),
    Branch(4, 1, "a", 2, -0.2, -0.3, "extended"),
    Branch(5, 1, "b", 2, -1.0, -1.1, "worse"),
    Branch(6, 2, "a", 2, -9.0, -11.0, "beam"),
    Branch(7, 2, "b", 2, -8.0, -10.0, "threshold"),
    Branch(8, 4, "</s>", 3, -0.1, -0.4, "best"),
    Branch(9, 4, "b", 3, -1.0, -1.3, "hopeless"),
]


def test_text() -> None:
    assert beam_lines(TREE) == [
        "├─ b    -2.000  too far below the best",  # the child that came nearest tells why
        "a",
        "├─ b    -1.100  complete, and not among the best",
        "a",
        "├─ b    -1.300  could not win any more",
        "</s>    -0.400  answer 1",
    ]


def test_forks_inside_of_branches() -> None:
    branches = [
        Branch(0, -1, "", 0, 0.0, 0.0, "extended"),
        Branch(1, 0, "x", 1, -0.1, -0.1, "best"),
        Branch(2, 0, "y", 1, -2.0, -2.0, "extended"),
        Branch(3, 2, "z", 2, -3.0, -3.0, "hopeless"),
        Branch(4, 2, "w", 2, -4.0, -4.0, "hopeless"),
    ]
    assert beam_lines(branches) == [
        "├─ y",
        "│  ├─ w    -4.000  could not win any more",
        "│  z       -3.000  could not win any more",
        "x          -0.100  answer 1",
    ]


def test_the_worst_branches_are_left_out() -> None:
    root, left_out = grow(TREE, most=2)
    assert left_out == 2
    assert root.leaves == 2
    assert beam_lines(TREE, most=2)[-1] == "(2 more branches)"


def test_words_have_blanks_between_them() -> None:
    assert spell(["the", "sky", "</s>"]) == "the sky </s>"
    assert spell(["1", "7", "</s>"]) == "17</s>"
    assert spell(["the", " sky", "s"]) == "the␣skys"


def test_there_is_a_reason_for_every_fate() -> None:
    assert {fate.name.lower() for fate in Fate} - {"impossible"} == WHY.keys() | ENDS.keys()
    assert not WHY.keys() & ENDS.keys()
    assert set(ENDS) == {fate.name.lower() for fate in Fate if fate >= Fate.EXTENDED}


@pytest.mark.parametrize(
    "search", [Beam(size=4, nbest=2), Beam(size=4, nbest=2, threshold=1.0, per_node=2), Beam(size=1)]
)
def test_a_tree_holds_all_that_lived(search: Beam) -> None:
    table = torch.from_numpy(np.random.default_rng(5).normal(size=(6, 6))).log_softmax(dim=1)
    record = SearchRecord()
    (found,) = search(
        lambda last, state: (table[last], state), torch.zeros(1, 1), torch.tensor([0]), 0, lengths=7, record=record
    )
    nodes = record.nodes(0)
    branches = [Branch(n.number, n.parent, str(n.symbol), *n[4:7], n.fate.name.lower()) for n in nodes]
    root, left_out = grow(branches, most=10**6)
    assert left_out == 0
    seen: list[Twig] = []
    waiting = [root]
    while waiting:
        twig = waiting.pop()
        seen.append(twig)
        waiting += twig.children
        assert bool(twig.why) is not bool(twig.children)
        assert all(child.branch.parent == twig.branch.number for child in twig.children)
    assert sorted(twig.branch.number for twig in seen) == [n.number for n in nodes if n.fate >= Fate.EXTENDED]
    ranked = sorted((twig for twig in seen if twig.rank), key=lambda twig: twig.rank)
    assert [twig.branch.score for twig in ranked] == [hypothesis.score for hypothesis in found]


def test_a_picture(tmp_path: Path) -> None:
    draw_beam(TREE, tmp_path / "new" / "beam.png", title="$ → $", most=2)
    assert (tmp_path / "new" / "beam.png").read_bytes().startswith(b"\x89PNG")
