"""CTC prefix beam search for words of a lexicon. docs/lexicon_search.md explains it; see ``naive.lexicon_beam``.

A hypothesis is the words so far, a node of a history tree, and a node of the lexicon's prefix tree for the word that
has begun. Where words end at a lexicon node, each of them leads back to the root with one more word in the history; at
the root the last token belongs to the hypothesis, too. Hypotheses that are equal in all this are one hypothesis,
however their words were spelled.
"""

import math

import numpy as np
import numpy.typing as npt

from seqloom.kernels.frame_beam.lexicon_state import (
    ANY_CHILD,
    BLANK_END,
    CHILDREN,
    FRAME,
    HISTORIES,
    LIVE,
    NEXT_WORD,
    NO_WORD,
    PARENT,
    ROOT,
    TOKEN,
    TOKEN_END,
    TOTAL,
    WITHIN_WORD,
    WORDS,
    LexiconBeamState,
    LexiconTree,
    child_bit,
    enforce_lag,
    find_live,
    find_live_child,
    hypothesis_key,
)
from seqloom.kernels.frame_beam.ngram_scorer import Scorer, score
from seqloom.kernels.frame_beam.prefix_beam import Limits
from seqloom.kernels.frame_beam.primitives import find_child, find_key, keep_best, load_frame, maximum, merge
from seqloom.kernels.runtime.numba_jit import borrow, jit, jit_inline

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]

STAY = -1  # in place of a lexicon node
MERGED = -2  # this and lower numbers, in place of a word: sums over spellings, numbered downwards
DEMOTION = 1e9  # subtracted from the score of a dominated candidate
NEGLIGIBLE = 12.0  # log-probability: paths this far below the worst survivor add less than 1e-5 to it
UNSUMMED = math.inf  # marks a total that has to be summed again


@jit_inline
def score_staying(state: LexiconBeamState, tree: LexiconTree, limits: Limits) -> float:
    """Let every hypothesis stay: a blank, its last token once more, or its last token after the hypothesis without it.

    Within a word there is only one such hypothesis; ``extend`` adds the paths that arrive from between two words.
    Returns the lowest of the scores.
    """
    histories, nodes, lasts, path_log_probs = state.live
    keys, slots, tokens = state.live_index.keys, state.live_index.slots, len(state.work.log_probs)
    lm_scores, lookahead, links, backpointers = (
        state.histories.lm_scores,
        tree.lookahead,
        tree.links,
        state.backpointers.staying,
    )
    log_probs, staying, children, lowest = state.work.log_probs, state.work.staying, state.work.children, math.inf
    blank, viterbi = limits.blank, limits.viterbi
    for slot in range(state.counters[LIVE]):
        children[slot] = 0
    for slot in range(state.counters[LIVE]):
        history, node, last = histories[slot], nodes[slot], lasts[slot]
        pointer, parent = 2 * slot, links[node, PARENT]
        ends_blank = path_log_probs[TOTAL, slot] + log_probs[blank]
        ends_token = path_log_probs[TOKEN_END, slot] + log_probs[last] if last >= 0 else -math.inf
        if node != ROOT and parent != ROOT:
            other = find_live(keys, slots, 1, hypothesis_key(len(links), tokens, history, parent, 0))
            if other >= 0:
                children[other] |= child_bit(links, parent, node)
                paths = path_log_probs[TOTAL * (last != lasts[other]), other] + log_probs[last]
                if paths > max(ends_blank, ends_token):
                    pointer = 2 * other
                ends_token = merge(ends_token, paths, viterbi)
        both = merge(ends_blank, ends_token, viterbi)
        backpointers[slot] = pointer
        staying[BLANK_END, slot], staying[TOKEN_END, slot], staying[TOTAL, slot] = ends_blank, ends_token, both
        lowest = min(lowest, both + lm_scores[history] + lookahead[node])
    return lowest


@jit
def best_token_log_prob(log_probs: Floats, blank: int) -> float:
    """The highest log-probability of a token other than the blank."""
    result = -math.inf
    for token in range(len(log_probs)):
        if token != blank:
            result = max(result, log_probs[token])
    return result


@jit_inline
def mark_successors(state: LexiconBeamState, tree: LexiconTree) -> None:
    """Mark hypotheses with live successors that have to be searched for: those of the root, and those after a word."""
    histories, nodes, successors, links = state.live.history, state.live.node, state.work.successors, tree.links
    parents, first_token_frame = state.histories.parents, state.histories.first_token_frame
    next_word_frame, children = state.histories.next_word_frame, state.work.children
    state.counters[FRAME] += 1
    frame, count = state.counters[FRAME], state.counters[LIVE]
    for slot in range(count):
        history, node = histories[slot], nodes[slot]
        if node == ROOT:
            next_word_frame[max(parents[history], 0)] = frame
        elif links[node, PARENT] == ROOT:
            first_token_frame[history] = frame
    for slot in range(count):
        successors[slot] = 0
        if nodes[slot] == ROOT and first_token_frame[histories[slot]] == frame:
            successors[slot], children[slot] = WITHIN_WORD, ANY_CHILD
        if next_word_frame[histories[slot]] == frame:
            successors[slot] |= NEXT_WORD


@jit_inline
def prune_extensions(
    scores: Floats, origins: Integers, first: int, count: int, per_node: int, size: int, capacity: int
) -> int:
    """Keep ``per_node`` of the candidates from ``first`` on, and ``size`` of all of them beyond ``capacity``."""
    if per_node and count - first > per_node:
        keep_best(scores[first:], origins[first:], count - first, per_node)
        count = first + per_node
    if count > capacity:
        keep_best(scores, origins, count, size)
        return size
    return count


@jit_inline
def extend(state: LexiconBeamState, tree: LexiconTree, scorer: Scorer, limits: Limits, bound: float) -> int:
    """Extend every hypothesis by a token: make candidates of successors above the bound.

    Paths are added to live successors, except within a word, where ``score_staying`` has added them. Returns the number
    of candidates.
    """
    # Arrays are taken out of their tuples once: inside loops, numba would count references at each access.
    histories, nodes, lasts, path_log_probs = state.live
    parents, words, child_table = state.histories.parents, state.histories.words, state.histories.child_table
    lm_states, lm_scores = state.histories.lm_states, state.histories.lm_scores
    keys, slots, reachable = state.live_index.keys, state.live_index.slots, state.work.successors
    scores, origins = state.candidates.scores, state.candidates.origins
    log_probs, staying, backpointers = state.work.log_probs, state.work.staying, state.backpointers.staying
    live_children = state.work.children
    links, words_at, lookahead, has_variants = tree.links, tree.words_at, tree.lookahead, tree.has_variants
    vocabulary_ids, bonuses = scorer.vocabulary_ids, scorer.bonuses
    kind, ngram_words, first_children = scorer.kind, scorer.ngram_words, scorer.first_children
    backoff_states, ngram_log_probs, log_backoffs = scorer.backoff_states, scorer.log_probs, scorer.log_backoffs
    lm_table = scorer.table
    tokens, best_log_prob = len(log_probs), best_token_log_prob(log_probs, limits.blank)
    best_lm_score = lookahead[ROOT] + max(0.0, scorer.max_bonus)  # the most that one more token can add
    # Several spellings that are below the bound may be above it together.
    lowest = bound - NEGLIGIBLE if tree.any_variants else bound
    count, capacity = 0, len(scores) - tree.max_fanout - limits.size
    for slot in range(state.counters[LIVE]):
        history, node, first = histories[slot], nodes[slot], count
        lm_score, successors = lm_scores[history], reachable[slot]
        min_paths = bound - NEGLIGIBLE if successors else lowest
        if not path_log_probs[TOTAL, slot] + best_log_prob + lm_score + best_lm_score > min_paths:
            continue
        after_variant = tree.any_variants and node == ROOT and history > 0 and has_variants[words[history]]
        min_score = lowest if after_variant else bound
        for child in range(links[node, CHILDREN], links[node + 1, CHILDREN]):
            token = links[child, TOKEN]
            source = TOTAL * (token != lasts[slot])  # else BLANK_END: a repeated token needs a blank in between
            paths = path_log_probs[source, slot] + log_probs[token]
            if not paths + lm_score + best_lm_score > min_paths:
                continue
            if links[child, CHILDREN] < links[child + 1, CHILDREN]:  # a word continues after the child
                key = hypothesis_key(len(links), tokens, history, child, 0)
                other = find_live_child(keys, slots, live_children[slot], key, links, node, child)
                if other >= 0 and node == ROOT:  # within a word, ``score_staying`` has added them
                    if paths > max(staying[BLANK_END, other], staying[TOKEN_END, other]):
                        backpointers[other] = 2 * slot
                    staying[TOKEN_END, other] = merge(staying[TOKEN_END, other], paths, limits.viterbi)
                    staying[TOTAL, other] = UNSUMMED
                elif other < 0 and paths + lm_score + lookahead[child] > min_score:
                    scores[count] = paths + lm_score + lookahead[child]
                    origins[count, 0], origins[count, 1], origins[count, 2] = slot, child, NO_WORD
                    count += 1
            for which in range(links[child, WORDS], links[child + 1, WORDS]):  # words that end at the child
                word = words_at[which]
                next_history = NO_WORD
                if successors & NEXT_WORD:
                    at = find_child(child_table, parents, words, history, word)
                    next_history = child_table[at]
                key = hypothesis_key(len(links), tokens, next_history, ROOT, token)
                other = find_live(keys, slots, next_history >= 0, key)
                if other >= 0:
                    if paths > max(staying[BLANK_END, other], staying[TOKEN_END, other]):
                        backpointers[other] = 2 * slot + 1
                    staying[TOKEN_END, other] = merge(staying[TOKEN_END, other], paths, limits.viterbi)
                    staying[TOTAL, other] = UNSUMMED
                    continue
                value = paths + lm_score + bonuses[word] + lookahead[ROOT]
                if not value > lowest:  # whatever the language model says: it adds no more than 0
                    continue
                lm_log_prob, next_lm_state = score(
                    kind,
                    ngram_words,
                    first_children,
                    backoff_states,
                    ngram_log_probs,
                    log_backoffs,
                    lm_table,
                    lm_states[history],
                    vocabulary_ids[word],
                )
                value += scorer.weight * lm_log_prob
                # NaN where an impossible word has the weight 0: neither comparison holds.
                if value > min_score or (value > lowest and has_variants[word]):
                    scores[count] = value
                    origins[count, 0], origins[count, 1], origins[count, 2] = slot, child, word
                    origins[count, 3] = next_lm_state
                    count += 1
        count = prune_extensions(scores, origins, first, count, limits.per_node, limits.size, capacity)
    return count


@jit_inline
def merge_spellings(state: LexiconBeamState, tree: LexiconTree, limits: Limits, count: int) -> None:
    """Sum candidates that differ only in how their last word, or the word before it, was spelled."""
    histories, nodes, lasts, path_log_probs = state.live
    scores, origins, keys, leaders, merged_words, merged_log_probs = state.candidates
    history_words, log_probs = state.histories.words, state.work.log_probs
    links, has_variants = tree.links, tree.has_variants
    merged, tokens, words = 0, len(log_probs), len(has_variants)
    for at in range(len(keys)):
        keys[at] = -1
    for candidate in range(count):
        slot, child, word = origins[candidate, 0], origins[candidate, 1], origins[candidate, 2]
        history, token = np.int64(histories[slot]), links[child, TOKEN]
        after_variant = nodes[slot] == ROOT and history > 0 and has_variants[history_words[history]]
        if not after_variant and (word == NO_WORD or not has_variants[word]):
            continue
        label = words * tokens + child if word == NO_WORD else word * tokens + token
        key = history * (words * tokens + len(links)) + label
        at = find_key(keys, key)
        leader = leaders[at]
        if keys[at] < 0:
            keys[at], leaders[at] = key, candidate
            continue
        paths = path_log_probs[TOTAL * (token != lasts[slot]), slot] + log_probs[token]
        if origins[leader, 2] > MERGED:
            first = origins[leader, 0]
            merged_words[merged] = word
            merged_log_probs[merged] = path_log_probs[TOTAL * (token != lasts[first]), first] + log_probs[token]
            origins[leader, 2] = MERGED - merged
            merged += 1
        which = MERGED - origins[leader, 2]
        merged_log_probs[which] = merge(merged_log_probs[which], paths, limits.viterbi)
        scores[leader] = merged_log_probs[which] + (scores[candidate] - paths)
        scores[candidate] = -math.inf


@jit_inline
def add_staying(state: LexiconBeamState, tree: LexiconTree, limits: Limits, count: int) -> int:
    """Add the hypotheses that stay, now that they have all their paths, to the candidates; the number of candidates."""
    histories, nodes, lm_scores = state.live.history, state.live.node, state.histories.lm_scores
    staying, lookahead = state.work.staying, tree.lookahead
    scores, origins = state.candidates.scores, state.candidates.origins
    for slot in range(state.counters[LIVE]):
        if staying[TOTAL, slot] == UNSUMMED:
            staying[TOTAL, slot] = merge(staying[BLANK_END, slot], staying[TOKEN_END, slot], limits.viterbi)
        scores[count] = staying[TOTAL, slot] + lm_scores[histories[slot]] + lookahead[nodes[slot]]
        origins[count, 0], origins[count, 1] = slot, STAY
        count += 1
    return count


@jit_inline
def keep_beam(state: LexiconBeamState, tree: LexiconTree, limits: Limits) -> bool:
    """Without candidates: let every hypothesis stay in its slot, unless one of them falls below the threshold."""
    histories, nodes, _, path_log_probs = state.live
    lm_scores, lookahead, staying = state.histories.lm_scores, tree.lookahead, state.work.staying
    lowest, highest, count = math.inf, -math.inf, state.counters[LIVE]
    for slot in range(count):
        if staying[TOTAL, slot] == UNSUMMED:
            staying[TOTAL, slot] = merge(staying[BLANK_END, slot], staying[TOKEN_END, slot], limits.viterbi)
        value = staying[TOTAL, slot] + lm_scores[histories[slot]] + lookahead[nodes[slot]]
        lowest, highest = min(lowest, value), max(highest, value)
    if lowest == -math.inf or not lowest >= highest - limits.threshold:
        return False
    backpointers = state.backpointers.ring[state.counters[FRAME] % len(state.backpointers.ring)]
    staying_backpointers = state.backpointers.staying
    for slot in range(count):
        backpointers[slot] = staying_backpointers[slot]
        for part in range(3):
            path_log_probs[part, slot] = staying[part, slot]
    return True


@jit
def limit_histories(state: LexiconBeamState, tree: LexiconTree, count: int, limit: int) -> None:
    """Drop candidates at a node of the lexicon that has ``limit`` better ones, which differ in their histories."""
    scores, origins, nodes = state.candidates.scores, state.candidates.origins, state.live.node
    counts, merged_words = np.zeros(len(tree.links), np.int64), state.candidates.merged_words
    for candidate in np.argsort(-scores[:count]):
        node, word = origins[candidate, 1], origins[candidate, 2]
        if node == STAY:
            node = nodes[origins[candidate, 0]]
        elif (merged_words[MERGED - word] if word <= MERGED else word) != NO_WORD:
            node = ROOT
        counts[node] += 1
        if counts[node] > limit:
            scores[candidate] = -math.inf


@jit_inline
def demote_dominated(state: LexiconBeamState, tree: LexiconTree, count: int) -> None:
    """Rank candidates that can never overtake another one below all others: same LM state, node and last token."""
    histories, live_nodes, lasts, _ = state.live
    scores, origins, keys, leaders, merged_words, _ = state.candidates
    links, lm_states = tree.links, state.histories.lm_states
    nodes, tokens = len(links), len(state.work.log_probs)
    for at in range(len(keys)):
        keys[at] = -1
    for candidate in range(count):
        slot, node, word = origins[candidate, 0], origins[candidate, 1], origins[candidate, 2]
        last, lm_state = lasts[slot], lm_states[histories[slot]]
        if node == STAY:
            node = live_nodes[slot]
        elif word > NO_WORD or (word <= MERGED and merged_words[MERGED - word] > NO_WORD):
            node, last, lm_state = ROOT, links[node, TOKEN], origins[candidate, 3]
        if lm_state < 0:
            continue
        key = hypothesis_key(nodes, tokens, lm_state, node, last)
        at = find_key(keys, key)
        if keys[at] < 0:
            keys[at], leaders[at] = key, candidate
        elif scores[candidate] > scores[leaders[at]]:
            scores[leaders[at]] -= DEMOTION
            leaders[at] = candidate
        else:
            scores[candidate] -= DEMOTION


@jit_inline
def select_beam(
    state: LexiconBeamState, tree: LexiconTree, scorer: Scorer, limits: Limits, candidates: int, bound: float
) -> None:
    """Make the first candidates the new beam, except those below the bound; new word sequences get a history."""
    histories, live_nodes, lasts, path_log_probs = state.live
    parents, words, lm_states, lm_log_probs, lm_scores, _, _, child_table = state.histories
    keys, slots = state.live_index
    scores, origins, _, _, merged_words, merged_log_probs = state.candidates
    log_probs, _, _, staying, selected, selected_keys = state.work
    links, vocabulary_ids, bonuses = tree.links, scorer.vocabulary_ids, scorer.bonuses
    kind, ngram_words, first_children = scorer.kind, scorer.ngram_words, scorer.first_children
    backoff_states, ngram_log_probs, log_backoffs = scorer.backoff_states, scorer.log_probs, scorer.log_backoffs
    lm_table = scorer.table
    nodes, tokens, staying_backpointers = len(links), len(log_probs), state.backpointers.staying
    backpointers = state.backpointers.ring[state.counters[FRAME] % len(state.backpointers.ring)]
    for at in range(len(keys)):
        keys[at] = -1
    count, size = 0, state.counters[HISTORIES]
    for candidate in range(candidates):
        if not scores[candidate] >= bound or scores[candidate] == -math.inf:
            continue
        slot, node, word = origins[candidate, 0], origins[candidate, 1], origins[candidate, 2]
        history, last = histories[slot], lasts[slot]
        if node == STAY:
            node = live_nodes[slot]
            backpointers[count] = staying_backpointers[slot]
            for part in range(3):
                selected[part, count] = staying[part, slot]
        else:
            token = links[node, TOKEN]
            paths = path_log_probs[BLANK_END if token == last else TOTAL, slot] + log_probs[token]
            if word <= MERGED:
                paths, word = merged_log_probs[MERGED - word], merged_words[MERGED - word]
            backpointers[count] = 2 * slot + (word != NO_WORD)
            selected[BLANK_END, count], selected[TOKEN_END, count], selected[TOTAL, count] = -math.inf, paths, paths
            last = token
            if word != NO_WORD:
                at = find_child(child_table, parents, words, history, word)
                if child_table[at] < 0:
                    child_table[at], parents[size], words[size] = size, history, word
                    lm_log_prob, lm_states[size] = score(
                        kind,
                        ngram_words,
                        first_children,
                        backoff_states,
                        ngram_log_probs,
                        log_backoffs,
                        lm_table,
                        lm_states[history],
                        vocabulary_ids[word],
                    )
                    lm_log_probs[size] = lm_log_probs[history] + lm_log_prob
                    lm_scores[size] = lm_scores[history] + scorer.weight * lm_log_prob + bonuses[word]
                    size += 1
                history, node = child_table[at], ROOT
        key = hypothesis_key(nodes, tokens, history, node, last)
        at = find_key(keys, key)
        if keys[at] >= 0:  # equal to one spelled differently, which merge_spellings did not merge for lack of space
            for part in range(1, 3):
                selected[part, slots[at]] = merge(selected[part, slots[at]], selected[TOKEN_END, count], limits.viterbi)
            continue
        keys[at], slots[at] = key, count
        selected_keys[0, count], selected_keys[1, count], selected_keys[2, count] = history, node, last
        count += 1
    for slot in range(count):
        histories[slot], live_nodes[slot], lasts[slot] = (
            selected_keys[0, slot],
            selected_keys[1, slot],
            selected_keys[2, slot],
        )
        for part in range(3):
            path_log_probs[part, slot] = selected[part, slot]
    state.counters[LIVE], state.counters[HISTORIES] = count, size


@jit
def advance(
    state: LexiconBeamState, tree: LexiconTree, scorer: Scorer, limits: Limits, frames: Floats, nbest: int
) -> int:
    """Process frames (T, V) until the history tree is full; the number of frames processed."""
    state, tree, scorer, frames = borrow(state), borrow(tree), borrow(scorer), borrow(frames)
    scores, origins = state.candidates.scores, state.candidates.origins
    for frame in range(len(frames)):
        if state.counters[HISTORIES] + limits.size > len(state.histories.parents):
            return frame
        load_frame(frames[frame], state.work.log_probs, limits.blank, limits.floor)
        lowest = score_staying(state, tree, limits)
        # With a limit of histories, a hypothesis that stays may have to leave the beam for one with a lower score.
        bound = lowest if state.counters[LIVE] == limits.size and not limits.histories else -math.inf
        mark_successors(state, tree)
        count = extend(state, tree, scorer, limits, bound)
        if count or limits.histories or not keep_beam(state, tree, limits):
            if tree.any_variants:
                merge_spellings(state, tree, limits, count)
            count = add_staying(state, tree, limits, count)
            if limits.histories:
                limit_histories(state, tree, count, limits.histories)
            if count > limits.size:
                if nbest == 1:
                    demote_dominated(state, tree, count)
                keep_best(scores, origins, count, limits.size)
                count = limits.size
            select_beam(state, tree, scorer, limits, count, maximum(scores, count) - limits.threshold)
        if limits.lag and state.counters[FRAME] >= limits.lag and state.counters[LIVE]:
            enforce_lag(state, tree)
    return len(frames)


@jit
def find_endings(state: LexiconBeamState, tree: LexiconTree, separator: int, endings: Integers) -> int:
    """Write every way in which a live hypothesis can end here, (beam slot, last word or NO_WORD); their number."""
    live, links, count = state.live, tree.links, 0
    for slot in range(state.counters[LIVE]):
        node = live.node[slot]
        if node == ROOT:
            endings[0, count], endings[1, count] = slot, NO_WORD
            count += 1
            continue
        for child in range(links[node, CHILDREN], links[node + 1, CHILDREN]):
            if links[child, TOKEN] == separator:  # the end of the recording counts as a separator
                for which in range(links[child, WORDS], links[child + 1, WORDS]):
                    endings[0, count], endings[1, count] = slot, tree.words_at[which]
                    count += 1
    return count


@jit
def score_endings(state: LexiconBeamState, scorer: Scorer, endings: Integers, count: int) -> Floats:  # (2, count)
    """log p of the last word and of the end of the sentence; 0 for an end that a table has no row for yet."""
    kind, ngram_words, first_children = scorer.kind, scorer.ngram_words, scorer.first_children
    backoff_states, ngram_log_probs, log_backoffs = scorer.backoff_states, scorer.log_probs, scorer.log_backoffs
    lm_table = scorer.table
    result = np.zeros((2, count), np.float64)
    for ending in range(count):
        lm_state, word = state.histories.lm_states[state.live.history[endings[0, ending]]], endings[1, ending]
        if word >= 0:
            result[0, ending], lm_state = score(
                kind,
                ngram_words,
                first_children,
                backoff_states,
                ngram_log_probs,
                log_backoffs,
                lm_table,
                lm_state,
                scorer.vocabulary_ids[word],
            )
        if scorer.end >= 0 and lm_state >= 0:
            result[1, ending] = score(
                kind,
                ngram_words,
                first_children,
                backoff_states,
                ngram_log_probs,
                log_backoffs,
                lm_table,
                lm_state,
                scorer.end,
            )[0]
    return result


@jit
def propagate_to_ancestors(values: Floats, parents: Integers) -> None:
    """Raise each node of a tree to the highest value below it."""
    for node in range(len(values) - 1, 0, -1):
        values[parents[node]] = max(values[parents[node]], values[node])
