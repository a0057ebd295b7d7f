"""Subword tokenizers of the tokenizers library: built from their pieces alone, since a stored one may be malicious."""

import json
import math
from typing import Any

MOST_PIECES = 10_000_000
LONGEST_PIECE = 10_000  # characters
UNUSED = ("truncation", "padding", "added_tokens", "post_processor")
"""Parts of the library's JSON that we never write; some of them fill the memory or never end."""


def byte_level(model: Any) -> Any:
    """A tokenizer of byte-level BPE with this model."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers

    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def metaspace(model: Any) -> Any:
    """A tokenizer of unigram pieces, in which ▁ stands for a space, with this model."""
    from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers

    tokenizer = Tokenizer(model)
    whitespace = normalizers.Replace(Regex(r"\s+"), " ")
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), whitespace, normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def parse_subwords(text: str) -> Any:
    """The tokenizer that a JSON text describes; ValueError if it is not one that we have written."""
    try:
        parts = json.loads(text)
    except RecursionError:
        raise ValueError("the tokenizer is too deeply nested") from None
    except ValueError as error:
        raise ValueError(f"the tokenizer is not valid JSON: {error}") from None
    model = parts.get("model") if isinstance(parts, dict) else None
    if not isinstance(model, dict):
        raise ValueError("the tokenizer has no model")  # noqa: TRY004  an error in a file
    if used := [name for name in UNUSED if parts.get(name)]:
        raise ValueError(f"the tokenizer has {used[0]}, which Seqloom does not write")
    kind = model.get("type")
    build, splitter = {"BPE": (_bpe, "ByteLevel"), "Unigram": (_unigram, "Metaspace")}.get(str(kind), (None, ""))
    if build is None:
        raise ValueError(f"the tokenizer is of type {str(kind)[:40]!r}, expected BPE or Unigram")
    for name, expected in (
        ("pre_tokenizer", splitter),
        ("decoder", splitter),
        ("normalizer", "" if kind == "BPE" else "Sequence"),
    ):
        part = parts.get(name)
        actual = part.get("type") if isinstance(part, dict) else ""
        if actual != expected:
            raise ValueError(f"the {name} of the tokenizer is {str(actual)[:40]!r}, expected {expected!r}")
    try:
        return build(model)
    except (LookupError, TypeError, OverflowError) as error:
        raise ValueError(f"the tokenizer cannot be built: {error}") from None


def _bpe(model: dict[str, Any]) -> Any:
    from tokenizers import models

    pieces, merges = model["vocab"], model["merges"]
    if not isinstance(pieces, dict) or not isinstance(merges, list) or len(merges) > MOST_PIECES:
        raise ValueError("the tokenizer has no pieces or merges")
    if sorted(map(_integer, pieces.values())) != list(range(len(pieces))):
        raise ValueError(f"expected the ids 0 to {len(pieces) - 1} for the pieces of the tokenizer")
    pairs: list[Any] = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in merges]
    if any(len(pair) != 2 or not {*pair, "".join(pair)} <= pieces.keys() for pair in pairs):
        raise ValueError("the tokenizer merges pieces that it does not have")
    _check_pieces(pieces)
    return byte_level(models.BPE(pieces, pairs))


def _unigram(model: dict[str, Any]) -> Any:
    from tokenizers import models

    pieces = [(piece, float(score)) for piece, score in model["vocab"]]
    _check_pieces(dict(pieces))
    if model.get("unk_id") != 0 or not all(math.isfinite(score) for _, score in pieces):
        raise ValueError("expected <unk> as the first piece of the tokenizer, and finite scores")
    if len(dict(pieces)) < len(pieces):
        raise ValueError("duplicate pieces in the tokenizer")
    return metaspace(models.Unigram(pieces, unk_id=0))


def _check_pieces(pieces: dict[Any, Any]) -> None:
    if not pieces or len(pieces) > MOST_PIECES:
        raise ValueError(f"expected 1 to {MOST_PIECES:,} pieces in the tokenizer, found {len(pieces):,}")
    if any(not isinstance(piece, str) or not 0 < len(piece) <= LONGEST_PIECE for piece in pieces):
        raise ValueError(f"expected pieces of 1 to {LONGEST_PIECE:,} characters in the tokenizer")


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"expected an integer, found {str(value)[:40]!r}")
    return value
