"""The lexicon and the language model of a search, as an exported model carries them for its runtime."""

from base64 import b64encode
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from seqloom.decoding.frames.frame_search import Guide
from seqloom.decoding.frames.language_models import LM, NeuralLM
from seqloom.decoding.frames.lexicon import Lexicon
from seqloom.export_check import ExportError, require_equal
from seqloom.models.decoder import Decoder
from seqloom.onnx.exported import open_session
from seqloom.onnx.graph import Graph
from seqloom.onnx.models import language_model

CHECKED_SHAPE = 4, 20  # texts of random tokens on which a language model is compared with its graph


class ExportedGuide(NamedTuple):
    """A guide for the runtime."""

    description: dict[str, Any] | None  # None: there is none
    parts: dict[str, Graph] = {}  # noqa: RUF012  the graph of a neural language model


NO_GUIDE = ExportedGuide(None)


def export_guide(guide: Guide) -> ExportedGuide:
    """The tables of a lexicon and of an n-gram model; a neural language model is a graph of its own."""
    if guide.lexicon is None and guide.lm is None and not guide.word_score:
        return NO_GUIDE
    lm: dict[str, Any] | None = None
    parts: dict[str, Graph] = {}
    if guide.lm is not None:
        ids = {"ids": _packed(guide.lm.vocabulary_ids, "<i4"), "unknown": guide.lm.unknown}
        tables, parts = _language_model(guide.lm)
        lm = tables | ids
    description = {
        "weight": guide.weight,
        "word_score": guide.word_score,
        "unk_score": guide.unk_score,
        "rescore": guide.rescore,
        "lexicon": None if guide.lexicon is None else _lexicon(guide.lexicon),
        "lm": lm,
    }
    return ExportedGuide(description, parts)


def _packed(values: ArrayLike, kind: str) -> str:
    """Little-endian numbers as base64."""
    return b64encode(np.asarray(values).astype(kind).tobytes()).decode()


def _lexicon(lexicon: Lexicon) -> dict[str, Any]:
    arrays = ("tokens", "parents", "first", "words_at", "words_first")
    return {
        "words": list(lexicon.words),
        "separator": lexicon.separator,
        **{name: _packed(getattr(lexicon, name), "<i4") for name in arrays},
    }


def _language_model(lm: LM) -> tuple[dict[str, Any], dict[str, Graph]]:
    if isinstance(lm, NeuralLM):
        return _neural(lm)
    automaton = lm.automaton
    description = {
        "kind": "ngram",
        "start": 1 + lm.model.start if lm.model.keys else 0,
        "end": lm.model.end,
        "words": _packed(automaton.ngram_words, "<i4"),
        "first": _packed(automaton.first_children, "<i8"),
        "backoff_states": _packed(automaton.backoff_states, "<i4"),
        "log_probs": _packed(automaton.log_probs, "<f4"),
        "log_backoffs": _packed(automaton.log_backoffs, "<f4"),
    }
    return description, {}


def _neural(lm: NeuralLM) -> tuple[dict[str, Any], dict[str, Graph]]:
    """A decoder, compared with its graph on random tokens."""
    decoder: Any = lm.decoder
    if not isinstance(decoder, Decoder):
        raise ExportError(f"the language model {type(decoder).__name__} of the search cannot be exported to ONNX")
    graph, ports = language_model(decoder)
    session = open_session(graph.finish("lm", {}).SerializeToString())
    tokens = torch.randint(decoder.embed.num_embeddings, CHECKED_SHAPE, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = decoder(tokens)[0].log_softmax(dim=-1).numpy()
    feed = {"tokens": tokens.numpy(), "lengths": np.full(len(tokens), tokens.shape[1]), **ports.start(len(tokens))}
    (answer,) = session.run(["log_probabilities"], feed)
    require_equal("log_probabilities of the language model of the search", answer, expected, [None])
    description = {"kind": "neural", "first": lm.start, "end": lm.end, "states": ports.description()}
    return description, {"lm": graph}
