"""Models that generate text: greedy search inside the graph, and its parts for other searches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.decoding.tokens.search import Hypothesis
from seqloom.models.pretrained.combined import CombinedInput
from seqloom.onnx import encoder_decoder as parts
from seqloom.onnx.exported import ForcedSteps, OnnxModel
from seqloom.onnx.guide import NO_GUIDE, ExportedGuide
from seqloom.onnx.inputs import Embed
from seqloom.onnx.pretrained import feed_combined

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class ModelInput:
    """How the examples of a task enter a graph."""

    embed: Embed
    description: dict[str, Any]  # for the runtime
    feed: Callable[[Sequence[Any]], Arrays]


def feed_text(
    collate: Callable[[Sequence[Any]], Any],
    examples: Sequence[Any],
    *,
    embed: Any,  # the embedding that reads them
) -> Arrays:
    """The tokens of examples as inputs of a graph, with those of pretrained vectors."""
    values, mask = collate(examples).inputs
    lengths = mask.sum(dim=1).numpy()
    if not isinstance(values, CombinedInput):
        return {"tokens": values.numpy(), "lengths": lengths}
    return {"tokens": values.own.numpy(), "lengths": lengths, **feed_combined(embed, values)}


def generator(
    model: Any,
    entry: ModelInput,
    *,
    limits: parts.Limits,
    end: int,
    suppress: tuple[int, ...],
    generate: Callable[[Sequence[Any]], tuple[list[list[Hypothesis]], Any]],  # greedy hypotheses, and their limits (B,)
    description: dict[str, Any],  # of the task and its outputs, for the runtime
    guide: ExportedGuide = NO_GUIDE,
) -> OnnxModel:
    """An encoder-decoder with greedy search, and its parts for beam search."""

    def expected(examples: Sequence[Any]) -> Arrays:
        hypotheses, lengths = generate(examples)
        return {**greedy_outputs(hypotheses, end), "limits": np.asarray(lengths)}

    graph = parts.encoder_decoder(model, entry.embed, limits=limits, end=end, suppress=suppress)
    encoder, ports, _ = parts.encoder(model, entry.embed, limits=limits)
    output = {**description["output"], "end": end, "suppress": suppress, "states": ports.description()}
    output["guide"] = guide.description
    return OnnxModel(
        graph,
        {**description, "input": entry.description, "output": output},
        entry.feed,
        expected,
        {"encoder": encoder, "step": parts.step(model), **guide.parts},
        forced_steps(generate, ports.description(), end),
    )


def forced_steps(
    generate: Callable[[Sequence[Any]], tuple[list[list[Hypothesis]], Any]], states: list[dict[str, Any]], end: int
) -> ForcedSteps:
    """The log-probabilities of the decoder's own greedy outputs, with which its parts are compared."""
    return ForcedSteps(lambda examples: greedy_outputs(generate(examples)[0], end), states, end)


def greedy_outputs(hypotheses: Sequence[Sequence[Hypothesis]], end: int) -> Arrays:
    """The best hypothesis of each row: tokens, filled with the end token, and log-probabilities, filled with 0."""
    best = [row[0] for row in hypotheses]
    steps = max(len(hypothesis.log_probabilities) for hypothesis in best)
    tokens = np.full((len(best), steps), end)
    values = np.zeros((len(best), steps), dtype=np.float32)
    for row, hypothesis in enumerate(best):
        tokens[row, : len(hypothesis.tokens)] = hypothesis.tokens
        values[row, : len(hypothesis.log_probabilities)] = hypothesis.log_probabilities
    return {"output": tokens, "log_probabilities": values}
