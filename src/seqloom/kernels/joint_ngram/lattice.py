"""All outputs of a source by a joint n-gram model as a lattice, and one step of a search through it.

Nodes of the lattice are contexts of the n-gram model after some source tokens; arcs are units, or parts of those with
several target tokens. Weights are conditional on the whole source: the arcs that leave a node add up to 1.
"""

import math

import numpy as np
from numpy.typing import NDArray

from seqloom.kernels.frame_beam.ngram_scorer import NGRAM, score
from seqloom.kernels.joint_ngram import EPSILON
from seqloom.kernels.runtime.numba_jit import jit

Integers = NDArray[np.int64]
Int32s = NDArray[np.int32]
Float32s = NDArray[np.float32]
Doubles = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@jit
def expand(
    source: Integers,  # (S,), tokens that occur in units
    first_units: Integers,  # (V + 1,): the units of source token v are units first_units[v] to first_units[v + 1] - 1
    offset: int,  # unit u is the word u + offset of the n-gram model
    scores: Doubles,  # further logarithms of the units of all tokens, one after the other; (0,): none
    offsets: Integers,  # (S,): the score of unit u at token s is scores[offsets[s] + u]
    ngram_weight: float,  # factor of the logarithms of the n-gram model
    start: int,  # state of the n-gram model before the first unit
    end: int,  # its word after the last unit
    ngram_words: Int32s,
    first_children: Integers,
    backoff_states: Int32s,
    log_probs: Float32s,
    log_backoffs: Float32s,
    node_of: Int32s,  # (states of the n-gram model,), -1: scratch memory, unchanged after the call
    narrow: float,  # relative to the most probable node at the same position, the least probable one that is extended
) -> tuple[Integers, Integers, Integers, Doubles, Integers, Doubles]:
    """Forward pass: origins, destinations, units and weights of arcs, the first arc at each position, and the nodes.

    The nodes are given by their probabilities, relative to the largest one at the position before.
    """
    table = np.zeros((0, 0))
    states, forward = [start], [1.0]
    origins, destinations, units, weights = [0][:0], [0][:0], [0][:0], [0.0][:0]
    first_arcs = np.zeros(len(source) + 2, dtype=np.int64)
    begin = 0  # first node at the position
    for position in range(len(source) + 1):
        low, high = end - offset, end - offset + 1
        if position < len(source):
            low, high = first_units[source[position]], first_units[source[position] + 1]
        last = len(states)
        largest = 0.0
        for node in range(begin, last):
            largest = max(largest, forward[node])
        largest = largest or 1.0
        for node in range(begin, last):
            if forward[node] < largest * narrow:
                continue
            for unit in range(low, high):
                log_prob, state = score(
                    *(NGRAM, ngram_words, first_children, backoff_states, log_probs, log_backoffs, table),
                    *(states[node], unit + offset),
                )
                to = node_of[state]
                if to < 0:
                    to = len(states)
                    node_of[state] = to
                    states.append(state)
                    forward.append(0.0)
                log_prob *= ngram_weight
                if len(scores) and position < len(source):
                    log_prob += scores[offsets[position] + unit]
                weight = math.exp(log_prob)
                forward[to] += forward[node] / largest * weight
                origins.append(node)
                destinations.append(to)
                units.append(unit)
                weights.append(weight)
        begin = last
        for node in range(begin, len(states)):
            node_of[states[node]] = -1
        first_arcs[position + 1] = len(origins)
    return (
        np.array(origins),
        np.array(destinations),
        np.array(units),
        np.array(weights),
        first_arcs,
        np.array(forward),
    )


@jit
def condition(
    origins: Integers,
    destinations: Integers,
    weights: Doubles,  # those of unlikely arcs become 0
    first_arcs: Integers,
    forward: Doubles,
    unlikely: float,  # posterior probability of the least probable arc that is kept
) -> Doubles:
    """Backward passes: the weight of each arc given the whole source, among those that leave the same node."""
    conditional = np.zeros(len(weights))
    for is_pruned in range(2):
        backward = np.zeros(len(forward))
        backward[destinations[first_arcs[-2] :]] = 1
        for position in range(len(first_arcs) - 2, -1, -1):
            posterior, largest = 0.0, 0.0
            for arc in range(first_arcs[position], first_arcs[position + 1]):
                conditional[arc] = weights[arc] * backward[destinations[arc]]
                backward[origins[arc]] += conditional[arc]
                posterior += forward[origins[arc]] * conditional[arc]
                largest = max(largest, backward[origins[arc]])
            for arc in range(first_arcs[position], first_arcs[position + 1]):
                if not is_pruned and forward[origins[arc]] * conditional[arc] < unlikely * posterior:
                    weights[arc] = 0.0
                if backward[origins[arc]] > 0:
                    conditional[arc] /= backward[origins[arc]]
            for arc in range(first_arcs[position], first_arcs[position + 1]):
                if arc == first_arcs[position] or origins[arc] != origins[arc - 1]:
                    backward[origins[arc]] /= largest or 1.0
    return conditional


@jit
def spell(
    origins: Integers,
    destinations: Integers,
    units: Integers,
    weights: Doubles,
    first_arcs: Integers,
    chunks: Integers,  # (U, B), the target tokens of each unit, followed by EPSILON
    end: int,  # the label at the end
) -> tuple[Integers, Integers, Integers, Integers, Doubles]:
    """The arcs with a weight, one for each target token: origins, destinations, labels, source positions, weights.

    Nodes are numbered from 0 by their first occurrence; arcs into a node come before those out of it.
    """
    number = np.full(max(destinations.max(), 0) + 1, -1, dtype=np.int64)
    number[0] = 0
    count = 1
    lefts, rights, labels, positions, values = [0][:0], [0][:0], [0][:0], [0][:0], [0.0][:0]
    for position in range(len(first_arcs) - 1):
        for arc in range(first_arcs[position], first_arcs[position + 1]):
            left, to = number[origins[arc]], destinations[arc]
            if weights[arc] <= 0 or left < 0:
                continue
            if number[to] < 0:
                number[to] = count
                count += 1
            spelled = np.array([end]) if position == len(first_arcs) - 2 else chunks[units[arc]]
            size = int(np.count_nonzero(spelled != EPSILON))
            for part in range(max(size, 1)):
                right = count if part < size - 1 else number[to]
                count += part < size - 1
                lefts.append(left)
                rights.append(right)
                labels.append(spelled[part])
                positions.append(position)
                values.append(weights[arc] if part == 0 else 1.0)
                left = right
    return np.array(lefts), np.array(rights), np.array(labels), np.array(positions), np.array(values)


@jit
def step(
    sizes: Integers,  # (R,), the number of arcs of R lattices
    origins: Int32s,  # (R, A), their arcs
    destinations: Int32s,
    labels: Int32s,
    weights: Doubles,
    rows: Integers,  # (B,), the lattice of each row
    tokens: Integers,  # (B,), the last ones
    started: Booleans,  # (B,), whether they come after the start of the text
    before: Doubles,  # (B, N), the probability of each node after the tokens before
    after: Doubles,  # (B, N), after the last one: written
    probabilities: Doubles,  # (B, V), of the next token: written; all 0 if the lattice has no such prefix
) -> None:
    """Read a token, and compute the probabilities of the next one."""
    for b in range(len(rows)):
        row, token, total = rows[b], tokens[b], 0.0
        if started[b]:
            after[b] = 0
            for arc in range(sizes[row]):
                if labels[row, arc] == token:
                    after[b, destinations[row, arc]] += before[b, origins[row, arc]] * weights[row, arc]
        else:
            after[b] = before[b]
        probabilities[b] = 0
        for arc in range(sizes[row]):
            value = after[b, origins[row, arc]] * weights[row, arc]
            if labels[row, arc] == EPSILON:
                after[b, destinations[row, arc]] += value
            else:
                probabilities[b, labels[row, arc]] += value
                total += value
        if total > 0:
            after[b] /= total
            probabilities[b] /= total


@jit
def align_target(
    origins: Int32s,  # (A,), the arcs of a single lattice
    destinations: Int32s,
    labels: Int32s,
    positions: Int32s,
    weights: Doubles,
    tokens: Integers,  # (T,), a target with its end
    nodes: int,
    posterior: Doubles,  # (T, S + 1), the probability that each token belongs to each source position: written
) -> None:
    """Forward and backward passes over the paths of a target; all zeros if the lattice has none."""
    length = len(tokens)
    forward = np.zeros((length + 1, nodes))
    backward = np.zeros((length + 1, nodes))
    forward[0, 0] = 1
    for at in range(length + 1):
        for arc in range(len(labels)):
            value = forward[at, origins[arc]] * weights[arc]
            if labels[arc] == EPSILON:
                forward[at, destinations[arc]] += value
        if at == length:
            break
        total = 0.0
        for arc in range(len(labels)):
            if labels[arc] == tokens[at]:
                value = forward[at, origins[arc]] * weights[arc]
                forward[at + 1, destinations[arc]] += value
                total += value
        if total <= 0:
            return
        forward[at + 1] /= total
    backward[length] = 1
    for at in range(length - 1, -1, -1):
        for arc in range(len(labels) - 1, -1, -1):
            if labels[arc] == tokens[at]:
                backward[at, origins[arc]] += weights[arc] * backward[at + 1, destinations[arc]]
            elif labels[arc] == EPSILON:
                backward[at, origins[arc]] += weights[arc] * backward[at, destinations[arc]]
        largest = backward[at].max()
        if largest > 0:
            backward[at] /= largest
        for arc in range(len(labels)):
            if labels[arc] == tokens[at]:
                value = forward[at, origins[arc]] * weights[arc] * backward[at + 1, destinations[arc]]
                posterior[at, positions[arc]] += value
        posterior[at] /= posterior[at].sum()
