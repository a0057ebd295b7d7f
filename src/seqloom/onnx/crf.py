"""Conditional random fields: Viterbi and the probabilities of labels, as loops over time inside the graph."""

import numpy as np

from seqloom.models.crf import CRF, EMISSION, Chain, scaled_exponentials
from seqloom.onnx.graph import BOOLEAN, DOUBLE, FLOAT, Graph, Value
from seqloom.onnx.modules import Rows, array


def decode(crf: CRF, emissions: Value, rows: Rows) -> tuple[Value, Value]:  # (B, T, L) → (B, T), (B, T)
    """The best labels, 0 in the padding, and the probability of each."""
    graph, chain = emissions.graph, crf.allowed_chain
    steps = rows.clear_padding(emissions).transpose(1, 0, 2)  # (T, B, L)
    length = steps.size(0)
    is_first = graph.range(length).equals(0)  # (T,)
    labels = _viterbi(graph, chain, steps, is_first, rows)
    marginals = _marginals(graph, chain, steps, is_first, rows)
    probabilities = graph.call("GatherElements", marginals, labels.unsqueeze(2), axis=2).squeeze(2)
    labels, probabilities = (part.transpose(1, 0) for part in (labels, probabilities))
    return graph.where(rows.mask, labels, 0), graph.where(rows.mask, probabilities, 0.0).cast(FLOAT)


def _viterbi(graph: Graph, chain: Chain, emissions: Value, is_first: Value, rows: Rows) -> Value:  # (T, B)
    start, into, end = array(chain.start), array(chain.transitions).T, array(chain.end)
    batch = emissions.size(1)

    def forward(states: list[Value], elements: list[Value]) -> tuple[list[Value], list[Value]]:
        (best,), (scores, first) = states, elements
        following = (best.unsqueeze(1) + into).max(2)  # the previous label last
        best = graph.where(first, graph.constant(start).unsqueeze(0), following) + scores
        return [best], [best]

    def backward(states: list[Value], elements: list[Value]) -> tuple[list[Value], list[Value]]:
        (following,), (best, last) = states, elements
        after = graph.where(last.unsqueeze(1), graph.constant(end), graph.constant(into).take(following))
        label = (best + after).argmax(1)
        return [label], [label]

    initial = graph.full(0.0, batch, len(start))
    _, (best,) = graph.scan(forward, [initial], [emissions, is_first])
    is_last = (graph.range(emissions.size(0)) + 1).unsqueeze(1).equals(rows.lengths.unsqueeze(0))  # (T, B)
    first_label = rows.lengths * 0
    _, (labels,) = graph.scan(backward, [first_label], [best, is_last], reverse=True)
    return labels


def _marginals(graph: Graph, chain: Chain, emissions: Value, is_first: Value, rows: Rows) -> Value:  # (T, B, L)
    """Forward-backward in double precision, scaled to sum 1 at each position."""
    start = chain.start.detach().double().numpy()
    transitions, end = scaled_exponentials(chain.transitions), scaled_exponentials(chain.end)
    batch, labels = emissions.size(1), len(start)
    scores = emissions.cast(DOUBLE)
    scores = scores + graph.where(is_first.unsqueeze(1, 2), graph.constant(start), 0.0)
    below = scores - scores.max(2, keep=True)
    raised = graph.call("Max", below, graph.constant(EMISSION, DOUBLE)).apply("Exp")
    factors = graph.where(below.equals(-np.inf), 0.0, raised)  # (T, B, L)

    def forward(states: list[Value], elements: list[Value]) -> tuple[list[Value], list[Value]]:
        (before,), (factor, first) = states, elements
        value = graph.where(first, factor, before @ transitions * factor)
        value = value / value.sum(1, keep=True)
        return [value], [value]

    def backward(states: list[Value], elements: list[Value]) -> tuple[list[Value], list[Value]]:
        (following,), (factor, real) = states, elements  # of the next position
        product = (following * factor) @ transitions.T
        value = graph.where(real.unsqueeze(1), product / product.sum(1, keep=True), graph.constant(final))
        return [value], [value]

    final = (end / end.sum()).reshape(1, -1)
    ones = graph.full(1.0, batch, labels, dtype=DOUBLE)
    _, (left,) = graph.scan(forward, [ones], [factors, is_first])
    real = rows.mask.transpose(1, 0)  # (T, B)
    none = graph.full(0, 1, batch, dtype=BOOLEAN)
    next_real = graph.concatenate([real.part(0, 1), none], axis=0)
    next_factors = graph.concatenate([factors.part(0, 1), ones.unsqueeze(0)], axis=0)
    _, (right,) = graph.scan(
        backward, [graph.constant(final).expand(batch, labels)], [next_factors, next_real], reverse=True
    )
    both = left * right
    return both / both.sum(2, keep=True)
