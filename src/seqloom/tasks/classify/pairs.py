"""Explanations of pairs of texts: both as one sequence, with a sign between them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from seqloom.data.text.tokenizers import Tokenizer
from seqloom.insight.gates import LabelledTrace, trace_function
from seqloom.insight.token_names import word_groups

BETWEEN = "‖"
"""Stands between the tokens of two texts."""


def joined_rows(
    vectors: Tensor,  # (R, T, D)
    mask: Tensor,  # (R, T)
) -> Tensor:  # (T', D)
    """The real elements of all rows, with a zero vector between two rows; a single row as it is."""
    if len(vectors) == 1:
        return vectors[0]
    gap = vectors.new_zeros(1, vectors.shape[2])
    first, *others = (row[: int(length)] for row, length in zip(vectors, mask.sum(dim=1), strict=True))
    return torch.cat([first, *(part for row in others for part in (gap, row))])


def separated_rows(
    vectors: Tensor,  # (N, T', D), variants of what joined_rows has joined
    mask: Tensor,  # (R, T), of the rows
) -> Tensor:  # (N R, T, D)
    """The rows again, padded with zeros; those of one variant are adjacent."""
    if len(mask) == 1:
        return vectors
    rows, start = [], 0
    for length in mask.sum(dim=1).tolist():
        rows.append(pad(vectors[:, start : start + length], (0, 0, 0, mask.shape[1] - length)))
        start += length + 1
    return torch.stack(rows, dim=1).flatten(0, 1)


def joined_words(encoding: Tokenizer, texts: Sequence[str]) -> list[tuple[str, list[int]]]:
    """The words of one or two texts with the indices of their joined tokens; none if tokens are words."""
    groups = [word_groups(encoding, text) for text in texts]
    if len(texts) == 1 or not any(groups):
        return groups[0]
    words: list[tuple[str, list[int]]] = []
    start = 0
    for text, group in zip(texts, groups, strict=True):
        count = len(encoding.tokens(text))
        if start:
            words.append((BETWEEN, [start - 1]))
        known = group or [(text, [*range(count)])] * (count > 0)  # a single word has no groups
        words += [(word, [start + index for index in indices]) for word, indices in known]
        start += count + 1
    return words


def trace_texts(model: Any, inputs: Sequence[Any], tokens: Sequence[list[str]]) -> list[LabelledTrace]:
    """Gates and states of the encoder while it reads each text."""
    traces: list[LabelledTrace] = []
    for name, part, names in zip(("first_text", "second_text"), inputs, tokens, strict=True):
        encoder: nn.Module = model.encoder
        traced = trace_function(model, partial(encoder, *part), labels=partial(_same, names))
        traces += [(replace(trace, name=f"{name}.{trace.name}"), labels) for trace, labels in traced]
    return traces


def _same(names: list[str], _layer: str) -> list[str]:
    return names
