"""Prefix beam search for words of a lexicon: a hypothesis is the words so far and a node of the lexicon's tree.

Words so far are histories, nodes of a tree of their own. At a node where words are complete, each of them leads back to
the root, with one more word in the history; there a hypothesis also remembers its last symbol. Those that are equal
in all this are one, whatever the spelling of their words was.
"""

import math

import numpy as np
import numpy.typing as npt

from seqloom.kernels.compiled import compiled, inlined
from seqloom.kernels.language import Scorer, score
from seqloom.kernels.lexicon_state import (
    ALIVE,
    BEHIND,
    CHILDREN,
    FRAME,
    HISTORIES,
    NOTHING,
    PARENT,
    SYMBOL,
    WITHIN,
    WORDS,
    Tree,
    Words,
    decide,
    living,
    seek,
)
from seqloom.kernels.prefix_beam import Limits
from seqloom.kernels.pruning import admit, find, greatest, keep_best, log_add

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]

STAYS = -1
UNITED = -2  # this and what is below, instead of a word: a sum over spellings
DEMOTED = 1e9
NEGLIGIBLE = 12.0  # what is so much below the worst that lives on adds a part of 10^-5 to it, and less to others


@inlined
def hold(beam: Words, tree: Tree, blank: int) -> float:
    """Let every hypothesis stay; a score that as many as are alive will reach."""
    tried, held, ends, lasts, gains, ahead = beam.tried, beam.held, beam.ends, beam.last, beam.gains, tree.ahead
    histories, nodes, lowest = beam.history, beam.node, math.inf
    for place in range(beam.counts[ALIVE]):
        beam.came[place] = 2 * place
        last = lasts[place]
        held[0, place] = ends[2, place] + tried[blank]
        held[1, place] = ends[1, place] + tried[last] if last >= 0 else -math.inf
        held[2, place] = log_add(held[0, place], held[1, place])
        lowest = min(lowest, held[2, place] + gains[histories[place]] + ahead[nodes[place]])
    return lowest


@compiled
def loudest(tried: Floats, blank: int) -> float:
    """The greatest log-probability beside the blank's."""
    found = -math.inf
    for symbol in range(len(tried)):
        if symbol != blank:
            found = max(found, tried[symbol])
    return found


@inlined
def relate(beam: Words, tree: Tree) -> None:
    """Note which live hypotheses others that live come from: only they can add to them."""
    histories, nodes, parents, links, fed = beam.history, beam.node, beam.parents, tree.links, beam.fed
    begun, ended, keys, places = beam.begun, beam.ended, beam.keys, beam.places
    width = len(tree.links) + len(beam.tried) + 1
    beam.counts[FRAME] += 1
    frame, count = beam.counts[FRAME], beam.counts[ALIVE]
    for place in range(count):
        fed[place] = 0
    for place in range(count):
        history, node = histories[place], nodes[place]
        if node == 0:
            ended[max(parents[history], 0)] = frame
        elif links[node, PARENT] == 0:
            begun[history] = frame
        else:
            other = living(keys, places, 1, history * width + links[node, PARENT])
            if other >= 0:
                fed[other] = WITHIN
    for place in range(count):
        if nodes[place] == 0 and begun[histories[place]] == frame:
            fed[place] = WITHIN
        if ended[histories[place]] == frame:
            fed[place] |= BEHIND


@inlined
def trim(values: Floats, origins: Integers, first: int, found: int, per_node: int, size: int, room: int) -> int:
    """Of the candidates from ``first`` on keep ``per_node``, of all of them ``size`` where room becomes short."""
    if per_node and found - first > per_node:
        keep_best(values[first:], origins[:, first:], found - first, per_node)
        found = first + per_node
    if found > room:
        keep_best(values, origins, found, size)
        return size
    return found


@inlined
def extend(beam: Words, tree: Tree, scorer: Scorer, limits: Limits, bound: float) -> int:
    """Give live hypotheses what others add to them, and make candidates of the rest above the bound; their number."""
    histories, nodes, lasts, ends, held, tried = beam.history, beam.node, beam.last, beam.ends, beam.held, beam.tried
    parents, words, table, keys, places = beam.parents, beam.words, beam.table, beam.keys, beam.places
    values, origins, gains, states = beam.values, beam.origins, beam.gains, beam.states
    links, words_at, ahead = tree.links, tree.words_at, tree.ahead
    numbers, bonuses, weight = scorer.numbers, scorer.gains, scorer.weight
    kind, entries, longer, suffixes = scorer.kind, scorer.words, scorer.first, scorer.suffixes
    chances, backoffs, rows = scorer.log_probabilities, scorer.log_backoffs, scorer.table
    most, top, fed, came = ahead[0] + max(0.0, scorer.most), loudest(tried, limits.blank), beam.fed, beam.came
    lowest = bound - NEGLIGIBLE if tree.various else bound  # several spellings together may be above the bound
    found, width, room = 0, len(links) + len(tried) + 1, len(values) - tree.fan - limits.size
    for place in range(beam.counts[ALIVE]):
        history, begin = histories[place], found
        gain, low = gains[history], bound - NEGLIGIBLE if fed[place] else lowest
        if not ends[2, place] + top + gain + most > low:
            continue
        again = tree.various and nodes[place] == 0 and history > 0 and tree.varied[words[history]]
        enough = lowest if again else bound
        for child in range(links[nodes[place], CHILDREN], links[nodes[place] + 1, CHILDREN]):
            symbol = links[child, SYMBOL]
            paths = ends[2 * (symbol != lasts[place]), place] + tried[symbol]
            if not paths + gain + most > low:
                continue
            if links[child, CHILDREN] < links[child + 1, CHILDREN]:
                other = living(keys, places, fed[place] & WITHIN, history * width + child)
                if other >= 0:
                    if paths > max(held[0, other], held[1, other]):
                        came[other] = 2 * place
                    held[1, other], held[2, other] = log_add(held[1, other], paths), math.inf  # to be summed again
                elif paths + gain + ahead[child] > enough:
                    values[found] = paths + gain + ahead[child]
                    origins[0, found], origins[1, found], origins[2, found] = place, child, NOTHING
                    found += 1
            for which in range(links[child, WORDS], links[child + 1, WORDS]):
                word = words_at[which]
                known = table[find(table, parents, words, history, word)] if fed[place] & BEHIND else NOTHING
                other = living(keys, places, known >= 0, known * width + len(links) + symbol + 1)
                if other >= 0:
                    if paths > max(held[0, other], held[1, other]):
                        came[other] = 2 * place + 1
                    held[1, other], held[2, other] = log_add(held[1, other], paths), math.inf  # to be summed again
                    continue
                reward, state = score(
                    kind, entries, longer, suffixes, chances, backoffs, rows, states[history], numbers[word]
                )
                value = paths + gain + bonuses[word] + ahead[0] + weight * reward
                # It is not a number where an impossible word has no weight.
                if value > enough or (value > lowest and tree.varied[word]):
                    values[found] = value
                    origins[0, found], origins[1, found], origins[2, found] = place, child, word
                    origins[3, found] = state
                    found += 1
        found = trim(values, origins, begin, found, limits.per_node, limits.size, room)
    return found


@inlined
def unite(beam: Words, tree: Tree, found: int) -> None:
    """Make one candidate of those that are equal but for how their last word, or the one before, was spelt."""
    values, origins, groups, leaders = beam.values, beam.origins, beam.groups, beam.leaders
    ends, lasts, tried, joined, sums, links = beam.ends, beam.last, beam.tried, beam.joined, beam.sums, tree.links
    count, symbols, words = 0, len(tried), len(tree.varied)
    for at in range(len(groups)):
        groups[at] = -1
    for candidate in range(found):
        place, child, word = origins[0, candidate], origins[1, candidate], origins[2, candidate]
        history, symbol = np.int64(beam.history[place]), links[child, SYMBOL]
        again = beam.node[place] == 0 and history > 0 and tree.varied[beam.words[history]]
        if not again and (word == NOTHING or not tree.varied[word]):
            continue
        label = words * symbols + child if word == NOTHING else word * symbols + symbol
        key = history * (words * symbols + len(links)) + label
        at = seek(groups, key)
        leader = leaders[at]
        if groups[at] < 0:
            groups[at], leaders[at] = key, candidate
            continue
        paths = ends[2 * (symbol != lasts[place]), place] + tried[symbol]
        if origins[2, leader] > UNITED:
            first = origins[0, leader]
            joined[count], sums[count] = word, ends[2 * (symbol != lasts[first]), first] + tried[symbol]
            origins[2, leader] = UNITED - count
            count += 1
        which = UNITED - origins[2, leader]
        sums[which] = log_add(sums[which], paths)
        values[leader] = sums[which] + (values[candidate] - paths)
        values[candidate] = -math.inf


@inlined
def stay(beam: Words, tree: Tree, found: int) -> int:
    """Add those that stay, now that they have all their paths, to the candidates."""
    held, values, origins, gains, ahead = beam.held, beam.values, beam.origins, beam.gains, tree.ahead
    histories, nodes = beam.history, beam.node
    for place in range(beam.counts[ALIVE]):
        if held[2, place] == math.inf:
            held[2, place] = log_add(held[0, place], held[1, place])
        values[found] = held[2, place] + gains[histories[place]] + ahead[nodes[place]]
        origins[0, found], origins[1, found] = place, STAYS
        found += 1
    return found


@inlined
def demote(beam: Words, tree: Tree, found: int) -> None:
    """Put behind all others what another candidate is better than, whatever comes: the first to go."""
    values, origins, groups, leaders = beam.values, beam.origins, beam.groups, beam.leaders
    histories, nodes, lasts, states = beam.history, beam.node, beam.last, beam.states
    links, width = tree.links, len(tree.links) + len(beam.tried) + 1
    for at in range(len(groups)):
        groups[at] = -1
    for candidate in range(found):
        place, node, word = origins[0, candidate], origins[1, candidate], origins[2, candidate]
        last, state = lasts[place], states[histories[place]]
        if node == STAYS:
            node = nodes[place]
        elif word > NOTHING or (word <= UNITED and beam.joined[UNITED - word] > NOTHING):
            node, last, state = 0, links[node, SYMBOL], origins[3, candidate]
        if state < 0:
            continue
        key = state * width + (node or len(links) + last + 1)
        at = seek(groups, key)
        if groups[at] < 0:
            groups[at], leaders[at] = key, candidate
        elif values[candidate] > values[leaders[at]]:
            values[leaders[at]] -= DEMOTED
            leaders[at] = candidate
        else:
            values[candidate] -= DEMOTED


@inlined
def settle(beam: Words, tree: Tree, scorer: Scorer, found: int, bound: float) -> None:
    """Make the first candidates the beam, but those below the bound."""
    values, origins, held, ends, fresh, chosen = (
        beam.values,
        beam.origins,
        beam.held,
        beam.ends,
        beam.fresh,
        beam.chosen,
    )
    keys, places, histories, lasts, nodes = beam.keys, beam.places, beam.history, beam.last, beam.node
    parents, words, states, table = beam.parents, beam.words, beam.states, beam.table
    links, tried, language, gains = tree.links, beam.tried, beam.language, beam.gains
    numbers, bonuses, weight = scorer.numbers, scorer.gains, scorer.weight
    kind, entries, longer, suffixes = scorer.kind, scorer.words, scorer.first, scorer.suffixes
    chances, backoffs, rows = scorer.log_probabilities, scorer.log_backoffs, scorer.table
    came, back = beam.came, beam.back[beam.counts[FRAME] % len(beam.back)]
    for at in range(len(keys)):
        keys[at] = -1
    count, size, width = 0, beam.counts[HISTORIES], len(links) + len(tried) + 1
    for candidate in range(found):
        if not values[candidate] >= bound or values[candidate] == -math.inf:
            continue
        place, node, word = origins[0, candidate], origins[1, candidate], origins[2, candidate]
        history, last = histories[place], lasts[place]
        if node == STAYS:
            node = nodes[place]
            back[count] = came[place]
            for part in range(3):
                fresh[part, count] = held[part, place]
        else:
            symbol = links[node, SYMBOL]
            paths = ends[0 if symbol == last else 2, place] + tried[symbol]
            if word <= UNITED:
                paths, word = beam.sums[UNITED - word], beam.joined[UNITED - word]
            back[count] = 2 * place + (word != NOTHING)
            fresh[0, count], fresh[1, count], fresh[2, count] = -math.inf, paths, paths
            last = symbol
            if word != NOTHING:
                where = find(table, parents, words, history, word)
                if table[where] < 0:
                    table[where], parents[size], words[size] = size, history, word
                    reward, states[size] = score(
                        kind, entries, longer, suffixes, chances, backoffs, rows, states[history], numbers[word]
                    )
                    language[size] = language[history] + reward
                    gains[size] = gains[history] + weight * reward + bonuses[word]
                    size += 1
                history, node = table[where], 0
        at = seek(keys, history * width + (node or len(links) + last + 1))
        if keys[at] >= 0:  # the same by another spelling, where room was too short to unite them
            for part in range(1, 3):
                fresh[part, places[at]] = log_add(fresh[part, places[at]], fresh[1, count])
            continue
        keys[at], places[at] = history * width + (node or len(links) + last + 1), count
        chosen[0, count], chosen[1, count], chosen[2, count] = history, node, last
        count += 1
    for place in range(count):
        histories[place], nodes[place], lasts[place] = chosen[0, place], chosen[1, place], chosen[2, place]
        for part in range(3):
            ends[part, place] = fresh[part, place]
    beam.counts[ALIVE], beam.counts[HISTORIES] = count, size


@compiled
def hear(beam: Words, tree: Tree, scorer: Scorer, limits: Limits, frames: Floats, wanted: int) -> int:
    """Go through the frames; how many were heard before there was no room. So many answers are wanted."""
    for frame in range(len(frames)):
        if beam.counts[HISTORIES] + limits.size > len(beam.parents):
            return frame
        admit(frames[frame], beam.tried, limits.blank, limits.floor)
        lowest = hold(beam, tree, limits.blank)
        bound = lowest if beam.counts[ALIVE] == limits.size else -math.inf
        relate(beam, tree)
        found = extend(beam, tree, scorer, limits, bound)
        if tree.various:
            unite(beam, tree, found)
        found = stay(beam, tree, found)
        if found > limits.size:
            if wanted == 1:
                demote(beam, tree, found)
            keep_best(beam.values, beam.origins, found, limits.size)
            found = limits.size
        settle(beam, tree, scorer, found, greatest(beam.values, found) - limits.threshold)
        if limits.lag and beam.counts[FRAME] >= limits.lag and beam.counts[ALIVE]:
            decide(beam, tree)
    return len(frames)
