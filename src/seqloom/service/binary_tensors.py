"""Tensors as bytes after the JSON of a request or an answer: an extension of the Open Inference Protocol by Triton."""

from typing import Any

import numpy as np
from starlette.exceptions import HTTPException

TYPES = {"FP32": "<f4", "FP64": "<f8", "INT64": "<i8", "INT32": "<i4"}
LENGTH = 4  # bytes of the length before each text, little-endian


def decode_tensor(datatype: str, content: bytes, size: Any) -> list[Any]:
    """The values of a tensor of ``size`` bytes, as its JSON says; refused if they are not there."""
    if size != len(content):
        raise HTTPException(
            422,
            f"the input has no data: expected binary_data_size = {len(content)} in its parameters, got {size!r:.60}",
        )
    if datatype == "BYTES":
        return _decode_texts(content)
    try:
        values: list[Any] = np.frombuffer(content, TYPES[datatype]).tolist()
    except ValueError:
        raise HTTPException(422, f"{size} bytes are no whole number of values of the type {datatype}") from None
    return values


def _decode_texts(content: bytes) -> list[str]:
    texts, start = [], 0
    while start < len(content):
        stop = start + LENGTH + int.from_bytes(content[start : start + LENGTH], "little")
        if start + LENGTH > len(content) or stop > len(content):
            raise HTTPException(422, "the bytes of the input end within a text")
        try:
            texts.append(content[start + LENGTH : stop].decode())
        except UnicodeDecodeError:
            raise HTTPException(422, f"text {len(texts) + 1} of the input is not UTF-8") from None
        start = stop
    return texts


def encode_texts(texts: list[str]) -> bytes:
    """Texts as bytes, each after its length."""
    encoded = [text.encode() for text in texts]
    return b"".join(len(text).to_bytes(LENGTH, "little") + text for text in encoded)
