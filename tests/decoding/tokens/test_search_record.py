"""Every candidate of a search is recorded, with the reason that the reference implementation gives."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from tests.decoding.tokens.reference import Limits, Toy, beam_search
from tests.decoding.tokens.test_beam import beams, problems, run

from seqloom.decoding.tokens.beam import Beam
from seqloom.decoding.tokens.greedy import Greedy
from seqloom.decoding.tokens.sample import Sample
from seqloom.decoding.tokens.search import Hypothesis, Search
from seqloom.decoding.tokens.search_record import NodeStatus, SearchNode, SearchRecord

PRUNED = {
    NodeStatus.SUPPRESSED,
    NodeStatus.NOT_ALLOWED,
    NodeStatus.TOO_SHORT,
    NodeStatus.REPEATED,
    NodeStatus.PER_NODE,
    NodeStatus.OUTSIDE_BEAM,
    NodeStatus.OTHER_GROUP,
    NodeStatus.BELOW_THRESHOLD,
}
Prefix = tuple[int, ...]


def prefixes(nodes: list[SearchNode]) -> dict[int, Prefix]:
    """The tokens from the root to each node."""
    tokens: dict[int, Prefix] = {}
    for node in nodes:
        tokens[node.id] = () if node.parent < 0 else (*tokens[node.parent], node.token)
    return tokens


def check(
    nodes: list[SearchNode], toy: Toy, row: int, *, end: int, hypotheses: list[Hypothesis], groups: int = 1
) -> None:
    """Nodes form a tree; extended ones have all their children, others none; scores are those of the model."""
    names = prefixes(nodes)
    assert len(names) == len(nodes)
    children = Counter((node.parent, node.token) for node in nodes)
    for node in nodes:
        prefix = names[node.id]
        assert node.row == row
        assert node.length == len(prefix)
        if node.parent >= 0:
            assert node.log_probability == toy.values(row, prefix[:-1])[node.token]
        if node.parent >= 0 and node.status not in (
            NodeStatus.IN_NBEST,
            NodeStatus.NOT_IN_NBEST,
            NodeStatus.TRUNCATED,
            NodeStatus.DUPLICATE,
        ):
            log_probs = [toy.values(row, prefix[:length])[token] for length, token in enumerate(prefix)]
            assert node.score == pytest.approx(math.fsum(log_probs), abs=1e-12)
        expected: Counter[int] = Counter()
        if node.status is NodeStatus.EXTENDED:
            times = groups if node.parent < 0 else 1  # groups share the root
            values = toy.values(row, prefix)
            expected = Counter({token: times for token, value in enumerate(values) if value > -math.inf})
        actual = Counter({token: count for (parent, token), count in children.items() if parent == node.id})
        assert actual == expected
    best = sorted((node for node in nodes if node.status is NodeStatus.IN_NBEST), key=lambda node: -node.score)
    actual_best = [(names[node.id], node.score) for node in best]
    expected_best = [
        ((*hypothesis.tokens, *([end] if hypothesis.ended else [])), hypothesis.score) for hypothesis in hypotheses
    ]
    assert sorted(actual_best) == sorted(expected_best)


@settings(max_examples=120)
@given(beam=beams(), problem=problems())
def test_statuses_match_the_reference(beam: Beam, problem: tuple[Toy, list[Limits]]) -> None:
    toy, limits = problem
    record = SearchRecord()
    actual = run(beam, toy, limits, record=record)
    assert actual == run(beam, toy, limits)  # recording changes nothing
    for row, hypotheses in enumerate(actual):
        nodes = record.nodes(row)
        check(nodes, toy, row, end=limits[row].end, hypotheses=hypotheses, groups=beam.groups)
        reasons: list[tuple[Prefix, int, str]] = []
        beam_search(beam, toy, row, limits[row], reasons)
        expected = Counter(reasons)
        names = prefixes(nodes)
        recorded = Counter((names[n.parent], n.token, n.status.name) for n in nodes if n.status in PRUNED)
        assert not recorded - expected  # the reference does not stop early
        if not any(node.status is NodeStatus.CANNOT_WIN for node in nodes):
            assert recorded == expected


@pytest.mark.parametrize(
    "search", [Greedy(), Sample(count=3), Sample(temperature=0.0), Beam(size=1)], ids=lambda search: str(search)[:40]
)
def test_greedy_and_sampling_record_every_candidate(search: Search) -> None:
    toy, record = Toy(4, kind="sparse", seed=3), SearchRecord()
    rows, length = 6, torch.tensor([5, 0, 3, 5, 1, 5])
    actual = search(toy.step, toy.start(range(rows)), torch.zeros(rows).long(), 3, lengths=length, record=record)
    for row, hypotheses in enumerate(actual):
        nodes = record.nodes(row)
        check(nodes, toy, row, end=3, hypotheses=hypotheses)
        assert (
            any(node.status in (NodeStatus.OUTSIDE_BEAM, NodeStatus.NOT_SAMPLED) for node in nodes) or not length[row]
        )


def test_children_limits_the_recorded_candidates() -> None:
    toy, whole, short = Toy(12, seed=3), SearchRecord(), SearchRecord(children=2)
    for record in (whole, short):
        run(Beam(size=3, groups=3, diversity=9.0, min_length=3), toy, [Limits(11, 4)], record=record)
    every, few = whole.nodes(0), short.nodes(0)
    names, short_names = prefixes(every), prefixes(few)
    lived = {names[node.id] for node in every if node.status not in PRUNED}
    assert {short_names[node.id] for node in few if node.status not in PRUNED} == lived
    assert len(few) < len(every) / 3
    assert set(short_names.values()) <= set(names.values())


def test_what_a_lexicon_excludes_does_not_hide_what_it_allows() -> None:
    """The scores of excluded tokens are those of the model alone and do not compare with the others."""
    record, lexicon, outside = SearchRecord(children=2), NodeStatus.NOT_IN_LEXICON, NodeStatus.OUTSIDE_BEAM
    root = record.start(np.array([0]))
    values = np.array([[-1.0, -2.0, -3.0, -11.0, -12.0, -13.0, -14.0]])
    statuses = np.array([[lexicon, lexicon, lexicon, NodeStatus.EXTENDED, outside, outside, NodeStatus.EXTENDED]])
    record.add(root, np.array([0]), 1, totals=np.zeros(1), values=values, statuses=statuses.astype(np.uint8))
    assert [node.token for node in record.nodes(0)[1:]] == [0, 1, 3, 4, 6]


def test_a_record_can_be_reused() -> None:
    toy, record = Toy(4, seed=3), SearchRecord()
    run(Beam(), toy, [Limits(3, 6)] * 2, record=record)
    first = record.nodes(1)
    run(Beam(), toy, [Limits(3, 6)] * 2, record=record)
    assert record.nodes(1) == first
    assert record.nodes(2) == []


def test_duplicates_and_hypotheses_outside_the_nbest() -> None:
    toy, record = Toy(4, seed=3), SearchRecord()
    run(Beam(size=4, groups=2, diversity=0.0, nbest=9), toy, [Limits(3, 4)], record=record)
    statuses = Counter(node.status for node in record.nodes(0))
    assert statuses[NodeStatus.DUPLICATE] > 0
    run(Beam(size=4, nbest=1, length_penalty="length"), toy, [Limits(3, 4)], record=record)
    statuses = Counter(node.status for node in record.nodes(0))
    assert statuses[NodeStatus.IN_NBEST] == 1
    assert statuses[NodeStatus.NOT_IN_NBEST] > 0
