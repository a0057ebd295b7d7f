"""Searches of seqloom_runtime with a lexicon and a language model: the answers of Seqloom's own searches."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.contracts import tiny
from tests.test_seqloom_runtime import Exported, assert_same, without_references

import seqloom_runtime
from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import NGramLM
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.decoding.frames.prefix_beam import PrefixBeam
from seqloom.decoding.searches import parse_search
from seqloom.models.ngram.kneser_ney import estimate
from seqloom.models.ngram.ngram import NGram
from seqloom.onnx.guide import export_guide

BLANKS = 7  # token of the space


def frames(draw: np.random.Generator, time: int, vocabulary: int) -> torch.Tensor:  # (1, T, V)
    logits = draw.normal(0, draw.choice([0.5, 2.0, 4.0]), (1, time, vocabulary))
    if draw.random() < 0.2:
        logits[draw.random(logits.shape) < 0.1] = -np.inf
        logits[:, :, 0] = draw.normal(0, 1, time)
    return torch.from_numpy(logits).log_softmax(dim=-1).float()


def ngram(draw: np.random.Generator, words: int) -> NGram:
    """Of words 0 … words - 1, an unknown one, start and end; no two have the same probability."""
    texts = [draw.integers(0, words + 1, draw.integers(1, 6)).tolist() for _ in range(12)]
    order = int(draw.integers(1, 4))
    model = estimate(texts, order=order, start=words + 1, end=words + 2, vocabulary=words + 3)
    tables = [values + np.where(values > -np.inf, -draw.random(len(values)), 0) for values in model.log_probabilities]
    return replace(model, log_probabilities=tuple(table.astype(np.float32) for table in tables))


def lexicon(draw: np.random.Generator) -> Lexicon:
    """Words of one to four tokens; some share a spelling, some have several, some consist of others."""
    separator = BLANKS if draw.random() < 0.5 else None
    names = [f"word {number}" for number in range(int(draw.integers(2, 15)))]
    pairs = [
        (name, draw.integers(1, BLANKS, draw.integers(1, 5)).tolist())
        for name in names
        for _ in range(1 + (draw.random() < 0.25))
    ]
    return Lexicon(pairs, separator=separator)


def guide(draw: np.random.Generator, *, words: bool, vocabulary: int) -> Guide:
    tree = lexicon(draw) if words else None
    count = len(tree) if tree is not None else vocabulary
    # Without a language model, words that are spelled alike have the same score, and which one is found is arbitrary.
    ambiguous = tree is not None and (tree.separator is None or len(tree.words_at) > len(np.unique(tree.leaves[0])))
    lm = None
    if ambiguous or draw.random() < 0.7:
        unknown = draw.integers(count) if draw.random() < 0.5 else count
        ids = np.where(np.arange(count) == unknown, -1, draw.permutation(count))
        lm = NGramLM(ngram(draw, count), vocabulary_ids=ids, unknown=count if draw.random() < 0.7 else None)
    scores = {name: float(draw.choice([0.0, draw.normal()])) for name in ("word_score", "unk_score")}
    return Guide(tree, lm, float(draw.choice([0.2, 0.5, 1.3])), **scores)


def settings(draw: np.random.Generator, *, words: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"size": int(draw.choice([2, 5, 20, 64])), "nbest": int(draw.choice([1, 3]))}
    if draw.random() < 0.3:
        options["merge"] = "max"
    if draw.random() < 0.3:
        options["per_node"] = int(draw.integers(1, 5))
    if draw.random() < 0.3:
        options["threshold"] = float(draw.uniform(1, 8))
    if draw.random() < 0.3:
        options["token_threshold"] = 0.02
    if words and draw.random() < 0.3:
        options["histories"] = int(draw.integers(1, 5))
    return options


def runtime_guide(guide: Guide, vocabulary: int) -> seqloom_runtime.Guide | None:
    description, _ = export_guide(guide)
    return None if description is None else seqloom_runtime.Guide(description, vocabulary, None)


@pytest.mark.parametrize("words", [True, False])
def test_many_random_searches_over_frames(words: bool) -> None:
    """Words, tokens, frames and scores of 300 searches."""
    compared = 0
    for seed in range(300):
        draw = np.random.default_rng([seed, words])
        vocabulary = BLANKS + 1
        chosen, options = guide(draw, words=words, vocabulary=vocabulary), settings(draw, words=words)
        table = frames(draw, int(draw.integers(0, 25)), vocabulary)
        (expected,) = PrefixBeam(**options)(table, torch.tensor([table.shape[1]]), guide=chosen)
        found = seqloom_runtime.PrefixBeam(options, runtime_guide(chosen, vocabulary))(table[0].numpy())
        # Both sum in double precision; Seqloom by a table that is exact to 2e-11.
        scores = [transcript.score for transcript in expected]
        np.testing.assert_allclose([each.score for each in found], scores, rtol=1e-7, atol=1e-7, err_msg=f"{seed}")
        for left, right in zip(found, expected, strict=True):
            if sum(math.isclose(right.score, score, abs_tol=1e-6) for score in scores) > 1:
                continue
            assert (left.tokens, list(left.words), left.frames) == (right.tokens, right.words, right.frames), seed
            assert list(left.spans) == right.spans, seed
            assert (left.acoustic, left.language) == pytest.approx((right.acoustic, right.language), abs=1e-6), seed
            compared += 1
    assert compared > 200


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_next_word_of_an_ngram_model(order: int) -> None:
    draw = np.random.default_rng(order)
    texts = [draw.integers(0, 6, draw.integers(1, 8)).tolist() for _ in range(20)]
    model = estimate(texts, order=order, start=6, end=7, vocabulary=8)
    runtime = runtime_guide(Guide(None, NGramLM(model, vocabulary_ids=np.arange(8))), 8)
    assert runtime is not None
    assert isinstance(runtime.lm, seqloom_runtime.NGram)
    for _ in range(20):
        state, context = runtime.lm.start, model.start_state()
        for word in draw.integers(0, 6, 6).tolist():
            expected = model.next(context)[0]
            np.testing.assert_allclose(runtime.lm.following(state), expected, rtol=1e-12)
            value, state = runtime.lm.score(state, word)
            assert value == pytest.approx(expected[word], rel=1e-12)
            context = model.advance(context, np.array([word]))
