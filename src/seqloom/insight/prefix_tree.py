"""A CTC prefix beam search, frame by frame: the prefixes it followed, and why each of them ended."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import END
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.guide_scores import GuideScores
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.insight.beam_tree import BeamNode
from seqloom.insight.token_names import display_token, show_whitespace
from seqloom.kernels.frame_beam.naive import PrefixStep, Tokens, Words, lexicon_beam, prefix_beam

Place = tuple[Words, Tokens]
"""The complete words of a lexicon, and the tokens after them; without a lexicon, all tokens."""

FLOOR = 1e-4
"""Probability below which a token is not followed: such branches are outside any beam that can be read."""
SHOWN_KEPT, SHOWN_PRUNED = 5, 2  # prefixes of a frame
MAX_FRAMES = 25  # frames that are printed
LEFT = {"outside_beam": "left_beam", "below_threshold": "left_threshold", "histories": "left_histories"}
OUTCOMES = {
    "kept": "kept",
    "per_node": "pruned: per-node limit",
    "histories": "pruned: limit of histories",
    "outside_beam": "pruned: outside the beam",
    "below_threshold": "pruned: below the score threshold",
}


@dataclass(frozen=True)
class PrefixChoice:
    """A prefix in one frame of the search."""

    frame: int
    history: str  # the words before the last one
    prefix: str  # the last word so far
    log_probability: float  # of all paths of this text up to the frame
    score: float  # what it is ranked by: with the language model, the best word it can become, and bonuses
    outcome: str  # kept, merged (also reached from a shorter prefix), or pruned and why


@dataclass(frozen=True)
class SearchSteps:
    """Every candidate of a search, and the texts that are left after the last frame with their final scores."""

    steps: list[PrefixStep]
    final: dict[Place, float]
    encoding: Tokenizer
    lexicon: Lexicon | None = None

    @cached_property
    def spellings(self) -> list[list[Tokens]]:
        """The spellings of each word of the lexicon, without the separator."""
        return _spellings(self.lexicon) if self.lexicon is not None else []

    def parents(self, place: Place) -> list[Place]:
        """The places from which a search arrives here; a word comes from each of its spellings."""
        words, prefix = place
        if prefix or self.lexicon is None:
            return [(words, prefix[:-1])]
        no_separator = self.lexicon.separator is None  # then the last token of a word completes it
        return [
            (words[:-1], each[:-1] if no_separator else each) for word in words[-1:] for each in self.spellings[word]
        ]

    def label(self, place: Place) -> str:
        """The last token of a text, with the word that it completes unless the tokens spell it."""
        words, prefix = place
        if prefix:
            return self._token(prefix[-1])
        if not words or self.lexicon is None:
            return ""
        word, spelling = self.lexicon.words[words[-1]], self.spellings[words[-1]][0]
        separator = self.lexicon.separator
        token = self._token(spelling[-1] if separator is None else separator)
        return token if self.encoding.decode(list(spelling)) == word else f"{token} [{word}]"

    def split(self, place: Place) -> tuple[str, str]:
        """The complete words, and the last one so far."""
        words, prefix = place
        if self.lexicon is None:
            return _split(prefix, self.encoding)
        return "".join(f"{self.lexicon.words[word]} " for word in words), self.encoding.decode(list(prefix))

    def _token(self, token: int) -> str:
        return display_token(self.encoding, self.encoding.vocabulary.tokens[token])


def record_prefixes(
    log_probs: NDArray[Any],  # (T, V), blank at 0
    search: PrefixBeam,
    encoding: Tokenizer,
    guide: Guide | None = None,
) -> SearchSteps:
    """Search once more, slowly, and record every candidate."""
    guide = guide or Guide()
    steps: list[PrefixStep] = []
    count = log_probs.shape[1] if guide.lexicon is None else len(guide.lexicon)
    in_search, scores = (GuideScores(each, count=count) for each in (guide.in_search, guide))
    frames: Any = log_probs.astype(np.float64)
    limits: dict[str, Any] = {
        "size": search.size,
        "per_node": search.per_node,
        "threshold": search.threshold or math.inf,
        "floor": math.log(max(search.token_threshold, FLOOR)),
        "merge": max if search.merge == "max" else np.logaddexp,
        "record": steps,
    }
    final: dict[Place, float] = {}
    if guide.lexicon is None:
        for text, value in prefix_beam(frames, score_text=in_search.score, **limits).items():
            final[(), text] = value + scores.score(text) + scores.end(text)
        return SearchSteps(steps, final, encoding)
    spelled = [(word, each) for word, spellings in enumerate(_spellings(guide.lexicon)) for each in spellings]
    texts, _ = lexicon_beam(
        frames,
        spelled,
        guide.lexicon.separator,
        score_words=in_search.score,
        lookahead=in_search.lookahead,
        histories=search.histories,
        **limits,
    )
    for words, value in texts.items():
        added = scores.score(words) if guide.rescores else 0.0
        final[words, ()] = value + added + scores.end(words)
    return SearchSteps(_join(steps, limits["merge"]), final, encoding, guide.lexicon)


def _spellings(lexicon: Lexicon) -> list[list[Tokens]]:
    """The spellings of each word, without the separator."""
    result: list[list[Tokens]] = [[] for _ in lexicon.words]
    nodes, first = lexicon.leaves
    tokens, parents = lexicon.tokens.tolist(), lexicon.parents.tolist()
    for word in range(len(result)):
        for leaf in nodes[first[word] : first[word + 1]].tolist():
            spelling, node = [], parents[leaf] if lexicon.separator is not None else leaf
            while node:
                spelling.append(tokens[node])
                node = parents[node]
            result[word].append(tuple(spelling[::-1]))
    return result


def _join(steps: Sequence[PrefixStep], merge: Any) -> list[PrefixStep]:
    """The steps, in which hypotheses between words that differ only in their last token are one."""
    joined: dict[tuple[int, Words, Tokens], PrefixStep] = {}
    for step in sorted(steps, key=lambda step: (step.frame, step.status != "kept", -step.score)):
        key = step.frame, step.words, step.prefix
        first = joined.setdefault(key, step)
        if first is not step and first.status == step.status:
            total = float(merge(first.log_prob, step.log_prob))
            joined[key] = first._replace(
                log_prob=total, score=first.score + total - first.log_prob, merged=first.merged or step.merged
            )
    return list(joined.values())


def prefix_nodes(search: SearchSteps, *, nbest: int) -> list[BeamNode]:
    """The tree of all prefixes that were in the beam; those that are left at the end have a child ``</s>``."""
    root: Place = ((), ())
    kept: dict[Place, tuple[float, float]] = {root: (0.0, 0.0)}  # score in the first and in the last frame
    left: dict[Place, str] = {}
    for step in search.steps:
        place = step.words, step.prefix
        if step.status == "kept":
            kept[place] = (kept.get(place, (step.score,))[0], step.score)
            left.pop(place, None)
        elif place in kept and step.status in LEFT:
            left.setdefault(place, LEFT[step.status])
    numbers = {place: number for number, place in enumerate(kept)}  # in the order in which they were reached
    origins = {
        place: _best([each for each in search.parents(place) if numbers.get(each, number) < number], kept)
        for place, number in numbers.items()
        if place != root
    }
    endings = {place: place if place in kept else _best(search.parents(place), kept) for place in search.final}
    continued = {*origins.values(), *endings.values()}
    nodes: list[BeamNode] = []
    for place, number in numbers.items():
        status = "extended" if place in continued else left.get(place, "left_beam")
        parent = numbers[origins[place]] if place != root else -1
        length = nodes[parent].length + 1 if place != root else 0
        nodes.append(BeamNode(number, parent, search.label(place), length, *kept[place], status))
    for rank, place in enumerate(sorted(endings, key=lambda each: -search.final[each])):
        value = search.final[place]
        status = "in_nbest" if rank < nbest and value > -math.inf else "not_in_nbest"
        parent = numbers[endings[place]]
        nodes.append(BeamNode(len(nodes), parent, END, nodes[parent].length + 1, value, value, status))
    return nodes


def _best(places: Sequence[Place], kept: dict[Place, tuple[float, float]]) -> Place:
    """Of the places that were in the beam, the one with the best score."""
    return max((place for place in places if place in kept), key=lambda place: kept[place][1])


def prefix_choices(search: SearchSteps) -> list[PrefixChoice]:
    """The best prefixes of each frame, kept ones first."""
    choices = []
    for frame, group in groupby(search.steps, key=lambda step: step.frame):
        ranked = sorted(group, key=lambda step: -step.score)
        kept = [step for step in ranked if step.status == "kept"][:SHOWN_KEPT]
        pruned = [step for step in ranked if step.status != "kept"][:SHOWN_PRUNED]
        for step in (*kept, *pruned):
            history, prefix = search.split((step.words, step.prefix))
            outcome = "merged" if step.merged and step.status == "kept" else OUTCOMES[step.status]
            choices.append(PrefixChoice(frame, history, prefix, step.log_prob, step.score, outcome))
    return choices


def _split(tokens: Tokens, encoding: Tokenizer) -> tuple[str, str]:
    """The complete words, and the last one so far."""
    names = [encoding.vocabulary.tokens[token] for token in tokens]
    if encoding.unit == "characters":
        history, space, prefix = "".join(names).rpartition(" ")
        return history + space, prefix
    return encoding.decode(list(tokens[:-1])), encoding.decode(list(tokens[-1:]))


def prefix_table(choices: Sequence[PrefixChoice]) -> tuple[list[str], list[list[str]], int]:
    """Header and rows of a table, of the frames in which the best prefix changes, and the number of other frames."""
    frames = [list(group) for _, group in groupby(choices, key=lambda choice: choice.frame)]
    changes = [
        group
        for index, group in enumerate(frames)
        if not index
        or (group[0].history, group[0].prefix) != (frames[index - 1][0].history, frames[index - 1][0].prefix)
    ]
    guided = any(not math.isclose(choice.score, choice.log_probability, abs_tol=1e-9) for choice in choices)
    header = ["frame", "history", "prefix", "log-probability", *(["score"] if guided else []), "outcome"]
    rows = [
        [
            str(choice.frame) if not rank else "",
            show_whitespace(choice.history),
            show_whitespace(choice.prefix) or "(nothing)",
            f"{choice.log_probability:z.3f}",
            *([f"{choice.score:z.3f}"] if guided else []),
            choice.outcome,
        ]
        for group in changes[:MAX_FRAMES]
        for rank, choice in enumerate(group)
    ]
    return header, rows, len(frames) - min(len(changes), MAX_FRAMES)
