"""Prefix beam search over the frames of one recording: prefixes are nodes of a tree in arrays.

A candidate is a prefix that stays what it is, or one that grows by a symbol. Where the longer prefix is alive too, it
takes its share by its parent's place in the beam: nothing is hashed but the few nodes that are new in a frame.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seqloom.kernels.compiled import compiled, inlined
from seqloom.kernels.language import NONE, Scorer, score
from seqloom.kernels.pruning import (
    admit,
    comes_from,
    decided,
    find,
    greatest,
    keep_best,
    least,
    log_add,
    sort_descending,
)

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]

ALIVE, NODES, FRAME, DECIDED, TOLD = 0, 1, 2, 3, 4
"""Places in ``counts``: live prefixes, nodes, frames heard; the nodes of what is decided and of what was told."""

STAYS = -1


class Prefixes(NamedTuple):
    """All that a search is between two frames, and room to work in."""

    counts: npt.NDArray[np.int64]  # (5,)
    node: Integers  # (K,) of each live prefix
    blank: Floats  # (K,) log p of its paths that end in a blank
    symbol: Floats  # (K,) and of those that end in its last symbol
    total: Floats  # (K,) of both
    parents: Integers  # (N,) of nodes; those before their children
    symbols: Integers  # (N,) -1: the root
    places: Integers  # (N,) in the beam, -1: not alive
    states: Integers  # (N,) of the language model
    language: Floats  # (N,) log p by the language model
    gains: Floats  # (N,) what it adds to the score, with all bonuses
    table: Integers  # (2^n,) nodes by parent and symbol, -1: empty
    tried: Floats  # (V,) the frame
    order: Integers  # (V,) of its symbols
    marks: npt.NDArray[np.int64]  # (K, V) the last frame in which this extension was alive already
    values: Floats  # (C,) of candidates
    origins: Integers  # (3, C) their place in the beam, symbol, and state of the language model
    rewards: Floats  # (K, V) log p of an extension by the language model
    held: Floats  # (3, K) blank, symbol, total of those that stay
    fresh: Floats  # (3, K) and of those that are chosen
    chosen: Integers  # (K,) their nodes
    came: Integers  # (K,) where those that stay come from, as in ``back``
    back: Integers  # (L, K) of the last frames, see ``pruning.decided``


class Limits(NamedTuple):
    """How far a search looks."""

    size: int
    per_node: int  # 0: any number
    floor: float  # of log-probabilities in a frame
    threshold: float  # infinity: none
    blank: int
    lag: int  # 0: any number of frames


@inlined
def hold(beam: Prefixes, blank: int) -> float:
    """Let every prefix stay, with what its parent adds to it; the best score before this frame."""
    count, frame, top = beam.counts[ALIVE], beam.counts[FRAME], -math.inf
    tried, held, marks, values, origins = beam.tried, beam.held, beam.marks, beam.values, beam.origins
    parents, symbols, places, gains = beam.parents, beam.symbols, beam.places, beam.gains
    nodes, blanks, ends, totals, came = beam.node, beam.blank, beam.symbol, beam.total, beam.came
    for place in range(count):
        came[place] = 2 * place
        node, total = nodes[place], totals[place]
        symbol, gain = symbols[node], gains[node]
        top = max(top, total + gain)
        ends_blank, ends_symbol = total + tried[blank], -math.inf
        if symbol >= 0 and tried[symbol] > -math.inf:
            ends_symbol = ends[place] + tried[symbol]
            above = places[parents[node]]
            if above >= 0:
                marks[above, symbol] = frame
                source = blanks[above] if symbols[parents[node]] == symbol else totals[above]
                if source + tried[symbol] > max(ends_blank, ends_symbol):
                    came[place] = 2 * above + 1
                ends_symbol = log_add(ends_symbol, source + tried[symbol])
        both = log_add(ends_blank, ends_symbol)
        held[0, place], held[1, place], held[2, place] = ends_blank, ends_symbol, both
        values[place] = both + gain
        origins[0, place], origins[1, place] = place, STAYS
    return top


@inlined
def arrange(tried: Floats, order: Integers, blank: int, lowest: float) -> int:
    """Sort the symbols that are worth a try; how many they are."""
    count = 0
    for symbol in range(len(tried)):
        value = tried[symbol]
        if value > -math.inf and value >= lowest and symbol != blank:
            order[count] = symbol
            count += 1
    sort_descending(tried, order, count)
    return count


@inlined
def extend(beam: Prefixes, scorer: Scorer, limits: Limits, bound: float, symbols: int) -> int:
    """Add the extensions above the bound to the candidates; how many there are then."""
    tried, order, marks, values, origins, rewards = (
        beam.tried,
        beam.order,
        beam.marks,
        beam.values,
        beam.origins,
        beam.rewards,
    )
    nodes, blanks, totals, lasts, gains, states = (
        beam.node,
        beam.blank,
        beam.total,
        beam.symbols,
        beam.gains,
        beam.states,
    )
    frame, bonuses, numbers, weight = beam.counts[FRAME], scorer.gains, scorer.numbers, scorer.weight
    kind, entries, longer, suffixes = scorer.kind, scorer.words, scorer.first, scorer.suffixes
    known, backoffs, rows = scorer.log_probabilities, scorer.log_backoffs, scorer.table
    found, most = beam.counts[ALIVE], scorer.most
    for place in range(beam.counts[ALIVE]):
        if found + symbols > len(values):
            keep_best(values, origins, found, limits.size)
            found = limits.size
            bound = max(bound, least(values, found))
        first, node = found, nodes[place]
        base = totals[place] + gains[node]
        for rank in range(symbols):
            symbol = order[rank]
            value = base + tried[symbol]
            if value + most <= bound:
                break
            if marks[place, symbol] == frame:
                continue
            if symbol == lasts[node]:
                value += blanks[place] - totals[place]
            following = 0
            if kind != NONE:
                reward, following = score(
                    kind, entries, longer, suffixes, known, backoffs, rows, states[node], numbers[symbol]
                )
                if reward == -math.inf:
                    continue
                rewards[place, symbol] = reward
                value += weight * reward
            value += bonuses[symbol]
            if value > bound:
                values[found] = value
                origins[0, found], origins[1, found], origins[2, found] = place, symbol, following
                found += 1
        if limits.per_node and found - first > limits.per_node:
            keep_best(values[first:], origins[:, first:], found - first, limits.per_node)
            found = first + limits.per_node
    return int(found)


@inlined
def settle(beam: Prefixes, scorer: Scorer, found: int, bound: float) -> None:
    """Make the first candidates the beam, but those below the bound."""
    nodes, blanks, ends, totals, chosen = beam.node, beam.blank, beam.symbol, beam.total, beam.chosen
    parents, symbols, places, states, table = beam.parents, beam.symbols, beam.places, beam.states, beam.table
    values, origins, tried, held, fresh = beam.values, beam.origins, beam.tried, beam.held, beam.fresh
    came, back = beam.came, beam.back[beam.counts[FRAME] % len(beam.back)]
    for place in range(beam.counts[ALIVE]):
        places[nodes[place]] = -1
    count, size = 0, beam.counts[NODES]
    for candidate in range(found):
        if not values[candidate] >= bound or values[candidate] == -math.inf:
            continue
        place, symbol = origins[0, candidate], origins[1, candidate]
        node = nodes[place]
        if symbol == STAYS:
            back[count] = came[place]
            for part in range(3):
                fresh[part, count] = held[part, place]
        else:
            back[count] = 2 * place + 1
            source = blanks[place] if symbols[node] == symbol else totals[place]
            fresh[0, count], fresh[1, count] = -math.inf, source + tried[symbol]
            fresh[2, count] = fresh[1, count]
            at = find(table, parents, symbols, node, symbol)
            if table[at] < 0:
                reward = beam.rewards[place, symbol] if scorer.kind != NONE else 0.0
                parents[size], symbols[size], table[at] = node, symbol, size
                beam.language[size] = beam.language[node] + reward
                beam.gains[size] = beam.gains[node] + scorer.weight * reward + scorer.gains[symbol]
                size += 1
            node = table[at]
            states[node] = origins[2, candidate]  # of a node that is known too: a table's state has moved
        chosen[count] = node
        count += 1
    for place in range(count):
        node = chosen[place]
        nodes[place], places[node] = node, place
        blanks[place], ends[place], totals[place] = fresh[0, place], fresh[1, place], fresh[2, place]
    beam.counts[ALIVE], beam.counts[NODES] = count, size


@inlined
def decide(beam: Prefixes) -> None:
    """What the best prefix had said before the last frames is decided: drop those that do not begin with it."""
    nodes, totals, parents, places = beam.node, beam.total, beam.parents, beam.places
    alive, frame = beam.counts[ALIVE], beam.counts[FRAME]
    for place in range(alive):
        beam.values[place] = totals[place] + beam.gains[nodes[place]]
    node = decided(parents, nodes, beam.values, alive, beam.back, frame)
    if node > beam.counts[DECIDED]:  # else it is an ancestor of what was decided before
        beam.counts[DECIDED] = node
        count, back = 0, beam.back[frame % len(beam.back)]
        for place in range(alive):
            if not comes_from(parents, nodes[place], node):
                places[nodes[place]] = -1
                continue
            nodes[count], back[count], places[nodes[place]] = nodes[place], back[place], count
            beam.blank[count], beam.symbol[count], totals[count] = beam.blank[place], beam.symbol[place], totals[place]
            count += 1
        beam.counts[ALIVE] = count


@compiled
def hear(beam: Prefixes, scorer: Scorer, limits: Limits, frames: Floats) -> int:
    """Go through the frames; how many were heard before the tree was full."""
    for frame in range(len(frames)):
        if beam.counts[NODES] + limits.size > len(beam.parents):
            return frame
        admit(frames[frame], beam.tried, limits.blank, limits.floor)
        top = hold(beam, limits.blank)
        count = beam.counts[ALIVE]
        bound = greatest(beam.values, count) - limits.threshold
        if count == limits.size:
            bound = max(bound, least(beam.values, count))
        lowest = bound - top - scorer.most
        found = extend(beam, scorer, limits, bound, arrange(beam.tried, beam.order, limits.blank, lowest))
        if found > limits.size:
            keep_best(beam.values, beam.origins, found, limits.size)
            found = limits.size
        settle(beam, scorer, found, greatest(beam.values, found) - limits.threshold)
        if limits.lag and beam.counts[FRAME] + 1 > limits.lag and beam.counts[ALIVE]:
            decide(beam)
        beam.counts[FRAME] += 1
    return len(frames)


@compiled
def endings(beam: Prefixes, scorer: Scorer) -> Floats:  # (K,)
    """log p of the end after each live prefix by the language model."""
    kind, entries, longer, suffixes = scorer.kind, scorer.words, scorer.first, scorer.suffixes
    known, backoffs, rows = scorer.log_probabilities, scorer.log_backoffs, scorer.table
    found = np.zeros(beam.counts[ALIVE], np.float64)
    if scorer.end >= 0:
        for place in range(len(found)):
            found[place] = score(
                kind, entries, longer, suffixes, known, backoffs, rows, beam.states[beam.node[place]], scorer.end
            )[0]
    return found
