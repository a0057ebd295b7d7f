"""Prefix and lexicon beam search and n-gram look-up, slow and readable: the reference in the tests of the kernels.

Hypotheses are tuples in dictionaries; every extension is computed and the whole list is sorted in each frame.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Tokens = tuple[int, ...]
Words = tuple[int, ...]
Paths = tuple[float, float]
"""log p of the paths of a hypothesis that end in a blank, and of those that end in its last token."""
Hypothesis = tuple[Words, Tokens, int]
"""Complete words; tokens of the word that has begun; the last token, -1 before the first."""

IMPOSSIBLE = -math.inf
NO_PATHS: Paths = (IMPOSSIBLE, IMPOSSIBLE)


Merge = Callable[[float, float], Any]
"""How paths of a hypothesis are merged: np.logaddexp adds their probabilities, max keeps the best one (Viterbi)."""


def total(paths: Paths, merge: Merge = np.logaddexp) -> float:
    return float(merge(*paths))


class PrefixStep(NamedTuple):
    """What became of a prefix in a frame."""

    frame: int
    words: Words  # complete words of a lexicon; empty without one
    prefix: Tokens  # all tokens; with a lexicon, those of the word that has begun
    log_prob: float  # of its paths up to this frame
    score: float  # what it is ranked by: with language model and bonuses
    merged: bool  # paths that stay at the prefix and paths that arrive from another one were summed
    status: str  # kept, per_node, histories, outside_beam or below_threshold


def prefix_beam(
    frames: npt.NDArray[Any],  # (T, V) log-probabilities; token 0 is the blank
    *,
    size: int,
    per_node: int = 0,
    threshold: float = math.inf,
    score_text: Callable[[Tokens], float] = lambda _: 0.0,  # score of a prefix by language model and bonuses
    lag: int = 0,
    merge: Merge = np.logaddexp,
    floor: float = IMPOSSIBLE,  # log-probability below which a token is skipped in a frame, unless it is the best one
    record: list[PrefixStep] | None = None,  # gets every candidate of every frame
) -> dict[Tokens, float]:
    """The prefixes in the beam after the last frame, and the log-probability of each."""
    beam: dict[Tokens, Paths] = {(): (0.0, IMPOSSIBLE)}
    # The prefix that the most probable path of each hypothesis had reached after each frame, the start included.
    traces: dict[Tokens, list[Tokens]] = {(): [()]}
    for number, frame in enumerate(_above_floor(frames, floor)):
        following: dict[Tokens, Paths] = {}
        origins: dict[Tokens, Tokens] = {}
        tried = [token for token in range(1, len(frame)) if frame[token] > IMPOSSIBLE]
        refused: list[Tokens] = []  # by the limit of extensions
        merged = set()
        for prefix, paths in beam.items():
            blank, repeated, arrived = total(paths, merge) + float(frame[0]), IMPOSSIBLE, IMPOSSIBLE
            if prefix:
                repeated = paths[1] + float(frame[prefix[-1]])
                arrived = _extended(beam, prefix, frame, merge)
            following[prefix] = (blank, float(merge(repeated, arrived)))
            origins[prefix] = prefix[:-1] if arrived > max(blank, repeated) else prefix
            merged |= {prefix} if arrived > IMPOSSIBLE else set()
            new = [(*prefix, token) for token in tried if (*prefix, token) not in beam]
            new.sort(key=lambda longer: -_extended(beam, longer, frame, merge) - score_text(longer))
            following |= {
                longer: (IMPOSSIBLE, _extended(beam, longer, frame, merge)) for longer in new[: per_node or None]
            }
            refused += new[per_node or len(new) :]
        scores = {prefix: total(paths, merge) + score_text(prefix) for prefix, paths in following.items()}
        possible = [prefix for prefix, score in scores.items() if score > IMPOSSIBLE]
        kept = sorted(possible, key=lambda prefix: -scores[prefix])[:size]
        beam_before = beam
        beam = {prefix: following[prefix] for prefix in kept if scores[prefix] >= scores[kept[0]] - threshold}
        if record is not None:
            for prefix in possible:
                status = "kept" if prefix in beam else "below_threshold" if prefix in kept else "outside_beam"
                value = total(following[prefix], merge)
                record.append(PrefixStep(number, (), prefix, value, scores[prefix], prefix in merged, status))
            for prefix in refused:
                value = _extended(beam_before, prefix, frame, merge)
                score = value + score_text(prefix)
                record.append(PrefixStep(number, (), prefix, value, score, merged=False, status="per_node"))
        traces = {prefix: [*traces[origins.get(prefix, prefix[:-1])], prefix] for prefix in beam}
        if 0 < lag < len(traces[kept[0]]):
            fixed = traces[kept[0]][-lag - 1]
            beam = {prefix: paths for prefix, paths in beam.items() if prefix[: len(fixed)] == fixed}
    return {prefix: total(paths, merge) for prefix, paths in beam.items()}


def _above_floor(frames: npt.NDArray[Any], floor: float) -> npt.NDArray[Any]:
    """Frames in which tokens below the floor are impossible, except the blank and the most probable token."""
    skipped = (frames < floor) & (frames < frames.max(axis=1, keepdims=True))
    skipped[:, :1] = False
    return np.where(skipped, IMPOSSIBLE, frames)


def _extended(beam: Mapping[Tokens, Paths], prefix: Tokens, frame: npt.NDArray[Any], merge: Merge) -> float:
    """log p of the paths that arrive at a prefix from its parent in this frame."""
    *parent, last = prefix
    paths = beam.get(tuple(parent), NO_PATHS)
    return (paths[0] if parent[-1:] == [last] else total(paths, merge)) + float(frame[last])


class LexiconNode:
    """A node of a lexicon's prefix tree."""

    def __init__(self) -> None:
        self.tokens: list[int] = []  # that continue a word
        self.words: list[int] = []  # that are complete here
        self.lookahead = IMPOSSIBLE  # upper bound of what the words below add to a score


def prefix_tree(
    entries: Sequence[tuple[int, Tokens]], lookahead: Callable[[int], float]
) -> defaultdict[Tokens, LexiconNode]:
    """The prefix tree of spellings; the key of a node is the tokens on the way to it."""
    nodes: defaultdict[Tokens, LexiconNode] = defaultdict(LexiconNode)
    for word, tokens in dict.fromkeys(entries):
        nodes[tokens].words.append(word)
        for length in range(len(tokens) + 1):
            node = nodes[tokens[:length]]
            node.lookahead = max(node.lookahead, lookahead(word))
            if length < len(tokens) and tokens[length] not in node.tokens:
                node.tokens.append(tokens[length])
    return nodes


def lexicon_beam(
    frames: npt.NDArray[Any],  # (T, V) log-probabilities; token 0 is the blank
    spellings: Sequence[tuple[int, Tokens]],  # (word, its tokens); a word may have several
    separator: int | None,  # token that follows each word
    *,
    size: int,
    score_words: Callable[[Words], float],  # score of the words by language model and bonuses
    lookahead: Callable[[int], float],  # upper bound of what one more word adds to it
    merge: Merge = np.logaddexp,
    per_node: int = 0,
    histories: int = 0,  # hypotheses with different words so far at one node of the lexicon; 0: no limit
    threshold: float = math.inf,
    floor: float = IMPOSSIBLE,
    record: list[PrefixStep] | None = None,  # gets every candidate of every frame
) -> tuple[dict[Words, float], float]:
    """The score of each word sequence in the last beam, without the end of the sentence.

    The second value is the smallest distance between the last score that was kept and the first that was not, over all
    frames: where it is tiny, rounding decides what survives.
    """
    entries = [(word, tokens if separator is None else (*tokens, separator)) for word, tokens in spellings]
    nodes = prefix_tree(entries, lookahead)

    def rank(hypothesis: Hypothesis, paths: Paths) -> float:
        words, begun, _ = hypothesis
        return total(paths, merge) + score_words(words) + nodes[begun].lookahead

    margin = math.inf
    beam: dict[Hypothesis, Paths] = {((), (), -1): (0.0, IMPOSSIBLE)}
    for number, frame in enumerate(_above_floor(frames, floor)):
        following: dict[Hypothesis, Paths] = {}
        for (words, begun, last), paths in beam.items():
            repeated = paths[1] + float(frame[last]) if last >= 0 else IMPOSSIBLE
            _add(following, (words, begun, last), (total(paths, merge) + float(frame[0]), repeated), merge)
        merged: set[Hypothesis] = set()
        refused: dict[Hypothesis, Paths] = {}  # by the limit of extensions
        for hypothesis, paths in beam.items():
            arriving = _longer(hypothesis, paths, nodes, frame, merge)
            new = sorted(arriving.keys() - beam.keys(), key=lambda key: -rank(key, arriving[key]))
            merged |= arriving.keys() & following.keys()
            for key, value in arriving.items():
                refuse = per_node and key in new[per_node:]
                _add(refused if refuse else following, key, value, merge)
        ranks = {key: rank(key, paths) for key, paths in following.items() if total(paths, merge) > IMPOSSIBLE}
        status = dict.fromkeys(ranks, "outside_beam")
        order = sorted(ranks, key=lambda key: -ranks[key])
        if histories:
            at_node: dict[Tokens, list[Hypothesis]] = {}
            for key in order:
                at_node.setdefault(key[1], []).append(key)
            for keys in at_node.values():
                edge = [ranks[key] for key in keys[histories - 1 : histories + 1]]
                margin = min(margin, edge[0] - edge[1]) if len(edge) == 2 else margin
                status |= dict.fromkeys(keys[histories:], "histories")
            order = [key for key in order if status[key] != "histories"]
        edge = [ranks[key] for key in order[size - 1 : size + 1]]
        margin = min(margin, edge[0] - edge[1]) if len(edge) == 2 else margin
        for key in order[:size]:
            status[key] = "kept" if ranks[key] >= ranks[order[0]] - threshold else "below_threshold"
        beam = {key: following[key] for key in order[:size] if status[key] == "kept"}
        if record is not None:
            record += [
                PrefixStep(number, key[0], key[1], total(following[key], merge), ranks[key], key in merged, status[key])
                for key in ranks
            ]
            record += [
                PrefixStep(number, key[0], key[1], paths[1], rank(key, paths), merged=False, status="per_node")
                for key, paths in refused.items()
                if key not in ranks and paths[1] > IMPOSSIBLE
            ]
    sums: dict[Words, float] = {}
    for (words, begun, _), paths in beam.items():
        ended = {words}
        if begun:
            ended = {(*words, word) for word in nodes[*begun, separator].words} if separator else set()
        for sequence in ended:
            sums[sequence] = float(merge(sums.get(sequence, IMPOSSIBLE), total(paths, merge)))
    return {sequence: value + score_words(sequence) for sequence, value in sums.items()}, margin


def _longer(
    hypothesis: Hypothesis,
    paths: Paths,
    nodes: Mapping[Tokens, LexiconNode],
    frame: npt.NDArray[Any],
    merge: Merge,
) -> dict[Hypothesis, Paths]:
    """The hypotheses with one more token of the lexicon, and the paths that arrive there from this one."""
    words, begun, last = hypothesis
    result: dict[Hypothesis, Paths] = {}
    for token in nodes[begun].tokens:
        child = nodes[*begun, token]
        arriving = (paths[0] if token == last else total(paths, merge)) + float(frame[token])
        result |= {((*words, word), (), token): (IMPOSSIBLE, arriving) for word in child.words}
        if child.tokens:
            result[words, (*begun, token), token] = (IMPOSSIBLE, arriving)
    return result


def _add(beam: dict[Hypothesis, Paths], hypothesis: Hypothesis, paths: Paths, merge: Merge) -> None:
    blank, token = beam.get(hypothesis, NO_PATHS)
    beam[hypothesis] = (float(merge(blank, paths[0])), float(merge(token, paths[1])))


def ngram_log_prob(
    log_probs: Mapping[Words, float],  # of every n-gram, its last word given the others
    log_backoffs: Mapping[Words, float],  # of every context
    context: Words,
    word: int,
) -> float:
    """log p(word | context) with back-off (Katz 1987): a penalty and a shorter n-gram replace an unknown one."""
    if (*context, word) in log_probs:
        return log_probs[(*context, word)]
    return log_backoffs.get(context, 0.0) + ngram_log_prob(log_probs, log_backoffs, context[1:], word)
