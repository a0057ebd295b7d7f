"""A CTC prefix beam search, frame by frame: the prefixes it followed, and why each of them ended."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.text.tokenizers import Tokenizer
from seqloom.data.text.vocabulary import END
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.insight.beam_tree import BeamNode
from seqloom.insight.token_names import display_token, show_whitespace
from seqloom.kernels.frame_beam.naive import PrefixStep, Tokens, prefix_beam

FLOOR = 1e-4
"""Probability below which a token is not followed: such branches are outside any beam that can be read."""
SHOWN_KEPT, SHOWN_PRUNED = 5, 2  # prefixes of a frame
MAX_FRAMES = 25  # frames that are printed
LEFT = {"outside_beam": "left_beam", "below_threshold": "left_threshold"}
OUTCOMES = {
    "kept": "kept",
    "per_node": "pruned: per-node limit",
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
    outcome: str  # kept, merged (also reached from a shorter prefix), or pruned and why


def record_prefixes(
    log_probs: NDArray[Any],  # (T, V), blank at 0
    search: PrefixBeam,
) -> tuple[list[PrefixStep], dict[Tokens, float]]:
    """Every candidate of a search without lexicon and language model, and the prefixes that are left."""
    steps: list[PrefixStep] = []
    final = prefix_beam(
        log_probs.astype(np.float64),
        size=search.size,
        per_node=search.per_node,
        threshold=search.threshold or math.inf,
        floor=math.log(max(search.token_threshold, FLOOR)),
        merge=max if search.merge == "max" else np.logaddexp,
        record=steps,
    )
    return steps, final


def prefix_nodes(
    steps: Sequence[PrefixStep], final: dict[Tokens, float], encoding: Tokenizer, *, nbest: int
) -> list[BeamNode]:
    """The tree of all prefixes that were in the beam; those that are left at the end have a child ``</s>``."""
    kept: dict[Tokens, tuple[float, float]] = {(): (0.0, 0.0)}  # log-probability in the first and in the last frame
    left: dict[Tokens, str] = {}
    for step in steps:
        if step.status == "kept":
            kept[step.prefix] = (kept.get(step.prefix, (step.log_prob,))[0], step.log_prob)
            left.pop(step.prefix, None)
        elif step.prefix in kept and step.status in LEFT:
            left.setdefault(step.prefix, LEFT[step.status])
    parents = {prefix[:-1] for prefix in kept if prefix}
    numbers = {prefix: number for number, prefix in enumerate(sorted(kept, key=len))}
    nodes = []
    for prefix, number in numbers.items():
        token = display_token(encoding, encoding.vocabulary.tokens[prefix[-1]]) if prefix else ""
        goes_on = prefix in parents or prefix in final
        status = "extended" if goes_on else left.get(prefix, "left_beam")
        parent = numbers[prefix[:-1]] if prefix else -1
        nodes.append(BeamNode(number, parent, token, len(prefix), *kept[prefix], status))
    for rank, prefix in enumerate(sorted(final, key=lambda each: -final[each])):
        status = "in_nbest" if rank < nbest else "not_in_nbest"
        value = final[prefix]
        nodes.append(BeamNode(len(nodes), numbers[prefix], END, len(prefix) + 1, value, value, status))
    return nodes


def prefix_choices(steps: Sequence[PrefixStep], encoding: Tokenizer) -> list[PrefixChoice]:
    """The best prefixes of each frame, kept ones first."""
    choices = []
    for frame, group in groupby(steps, key=lambda step: step.frame):
        ranked = sorted(group, key=lambda step: -step.log_prob)
        kept = [step for step in ranked if step.status == "kept"][:SHOWN_KEPT]
        pruned = [step for step in ranked if step.status != "kept"][:SHOWN_PRUNED]
        for step in (*kept, *pruned):
            history, prefix = _split(step.prefix, encoding)
            outcome = "merged" if step.merged and step.status == "kept" else OUTCOMES[step.status]
            choices.append(PrefixChoice(frame, history, prefix, step.log_prob, outcome))
    return choices


def _split(tokens: Tokens, encoding: Tokenizer) -> tuple[str, str]:
    """The complete words, and the last one so far."""
    names = [encoding.vocabulary.tokens[token] for token in tokens]
    if encoding.unit == "characters":
        history, space, prefix = "".join(names).rpartition(" ")
        return history + space, prefix
    return encoding.decode(list(tokens[:-1])), encoding.decode(list(tokens[-1:]))


def prefix_rows(choices: Sequence[PrefixChoice]) -> tuple[list[list[str]], int]:
    """Rows of a table, of the frames in which the best prefix changes, and the number of other frames."""
    frames = [list(group) for _, group in groupby(choices, key=lambda choice: choice.frame)]
    changes = [
        group
        for index, group in enumerate(frames)
        if not index
        or (group[0].history, group[0].prefix) != (frames[index - 1][0].history, frames[index - 1][0].prefix)
    ]
    rows = [
        [
            str(choice.frame) if not rank else "",
            show_whitespace(choice.history),
            show_whitespace(choice.prefix) or "(nothing)",
            f"{choice.log_probability:z.3f}",
            choice.outcome,
        ]
        for group in changes[:MAX_FRAMES]
        for rank, choice in enumerate(group)
    ]
    return rows, len(frames) - min(len(changes), MAX_FRAMES)
